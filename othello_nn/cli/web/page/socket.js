// The connection: messages as JSON, made again for ever when it is lost. What is said meanwhile is dropped: when the
// server is back, it is told the whole game anyway.

const FIRST_WAIT_MS = 250, MOST_WAIT_MS = 2000;

export class Socket {
  constructor(onMessage, onOpen, onState) {
    Object.assign(this, { onMessage, onOpen, onState, wait: FIRST_WAIT_MS });
    this.connect();
  }

  connect() {
    const socket = this.socket = new WebSocket(`ws://${location.host}/ws`);
    socket.onopen = () => {
      this.wait = FIRST_WAIT_MS;
      this.onState(true);
      this.onOpen();
    };
    socket.onmessage = (event) => socket === this.socket && this.onMessage(JSON.parse(event.data));
    socket.onclose = (event) => {
      this.onState(false, event.reason);
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(2 * this.wait, MOST_WAIT_MS);
    };
  }

  send(type, fields = {}) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type, ...fields }));
  }
}
