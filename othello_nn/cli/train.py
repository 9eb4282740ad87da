"""The command line of ``train.py``: what can be typed, what is printed, what is said when something was wrong.

The loop itself is in ``train.py``, and handed to ``run_command``.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from othello_nn.cli.base import INTERRUPTED, CommandParser, UsageError, give_up_stdout, missing_package
from othello_nn.cli.compare import compare
from othello_nn.config import DEFAULT_PRESET, OWN_PRESET, Config, ConfigError, load_preset, preset_names
from othello_nn.errors import OthelloError, did_you_mean, shorten
from othello_nn.kinds import KINDS, ModuleOptions
from othello_nn.modules import HOW, checked_options, full_source, name_class
from othello_nn.options import Number, Whole, add_flag
from othello_nn.program import PLAY, TRAIN, command, note, torchrun_program
from othello_nn.resources import CONFIG_FILE, RUNS, find_net, find_run, shipped_nets
from othello_nn.sparkline import can_show_sparkline, sparkline

if TYPE_CHECKING:
    from othello_nn.learn.distributed import Group
    from othello_nn.learn.learner import Learner
    from othello_nn.learn.runs import Run
    from othello_nn.learn.trainer import Summary


def parser() -> CommandParser:
    presets = "\n".join(f"  {name:17s} {load_preset(name).description}" for name in preset_names())
    epilog = f"""\
presets:
{presets}

examples:
  python train.py                                       half a minute to a net that plays
  python train.py --preset league                       the Othello League's specialist, in some minutes
  python train.py --preset triangle --minutes 5 --set net.maps=24 --set td.lambda=0.5
  python train.py --net examples/resnet.py:ResNet --set net.width=64 --run mynet-1      any nn.Module of your own
  python train.py --resume triangle-1                   go on where it stopped
  torchrun --nproc-per-node 2 {torchrun_program()} --preset triangle
  tensorboard --logdir runs --samples_per_plugin images=200     watch, with all pictures
  python train.py --compare quick-1 quick-2 --picture curves.svg

A run is a folder in runs/: curves, the state to resume from, and net.safetensors, which is a player:
  python play.py match quick-1 swh
exit codes: 0 done, 1 training failed, 2 bad usage or input, 130 stopped by Ctrl-C (what was learnt is saved)
"""
    made = CommandParser(prog=TRAIN, description="Teach a net Othello.", epilog=epilog)
    made.add_argument("--preset", metavar="NAME", help=f"what to train, see below ({DEFAULT_PRESET})")
    made.add_argument(
        "--net",
        metavar="NET",
        help=f"a net of your own, {HOW}, or a kind of net; it learns by the preset {OWN_PRESET}, unless one is named",
    )
    add_flag(made, "--device", "D", Config.options()["device"].left_open)
    add_flag(made, "--minutes", "M", Number(None, "stop then", 0.001, what="a number of minutes"))
    add_flag(made, "--games", "N", Config.options()["games"].left_open)
    made.add_argument("--run", metavar="NAME", help="the run's name (the preset's, numbered)")
    made.add_argument("--resume", metavar="RUN", help="go on with a run, with its settings")
    made.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help=f"the folder of all runs ({RUNS})")
    add_flag(made, "--seed", "S", Config.options()["seed"].left_open)
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the preset")
    add_flag(made, "--threads", "N", Whole(None, "cores (all)", 1))
    made.add_argument("--compare", nargs="+", metavar="RUN", help="show two or more runs side by side and stop")
    made.add_argument("--picture", metavar="FILE.svg", help="of --compare: draw how strong they became")
    made.add_argument("--print-config", action="store_true", help="print the settings as JSON and stop")
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return made


@dataclass(frozen=True)
class Job:
    """What ``train.py`` was asked to do, checked; the same on every rank but for ``group``."""

    config: Config
    device: str
    group: Group
    threads: int
    run: Run | None = None
    """The run to go on with; a new one is made if there is none."""
    name: str | None = None
    """Of a new run; without it the preset's, numbered."""
    runs: Path = RUNS
    minutes: float | None = None
    quiet: bool = False
    why: str = ""
    """Why it learns on this device, if the program decided it."""
    started: int = 1
    """Ranks that torchrun has started, of which ``group`` are left after they have pooled their cores."""

    @property
    def resumed(self) -> bool:
        return self.run is not None

    def make_run(self) -> Run:
        """The run of all ranks: rank 0 makes its folder, the others are told its name."""
        from othello_nn.learn.runs import Run

        if self.run is not None:
            if self.config != self.run.config and self.group.is_rank_0:
                Run(self.run.folder, self.config).write_config()
            return Run(self.run.folder, self.config)
        made, name = None, ""
        try:
            if self.group.is_rank_0:
                made = Run.create(self.runs, self.name, self.config)
                name = made.name
        finally:
            name = self.group.broadcast(name)
        if not name:  # rank 0 says why
            sys.exit(2)
        return made or Run(self.runs / name, self.config)

    def announce(self, run: Run, learner: Learner) -> None:
        """Say what is trained, where, and how to watch it."""
        if not self.group.is_rank_0:
            return
        net = learner.net()
        count = sum(parameter.numel() for parameter in net.parameters())
        why = f" ({self.why})" if self.why else ""
        where = f"{self.device}{why}, {self.threads} threads"
        where += f", {self.group.size} processes" if self.group.size > 1 else ""
        where += f" (the cores of {self.started} ranks)" if self.started > self.group.size else ""
        begun = f", from {learner.games:,} {learner.unit} on" if learner.games else ""
        print(f"{_in_a_line(self.config)}; all settings: {run.folder / CONFIG_FILE}", file=sys.stderr)
        print(f"{run.folder}: {net.title} net of {count:,} weights on {where}{begun}", file=sys.stderr)
        print(f"watch: tensorboard --logdir {run.folder.parent} {FILM}", file=sys.stderr, flush=True)


def _in_a_line(config: Config) -> str:
    """What is trained: the preset, how much of it, and what was changed about it."""
    told = [f"{config.preset or 'no preset'} (learner {config.learner}, seed {config.seed})"]
    told += [f"{name}={shorten(now)}" for name, (_, now) in config.differences.items() if name != "seed"]
    return ", ".join(told)


FILM = "--samples_per_plugin images=200"
"""Without it TensorBoard shows ten pictures of a run at most, drawn by lot."""
Loop = Callable[[Job], "Summary"]
"""``train.train``, which stands where people look for it, outside the package."""


def run_command(train: Loop, argv: Sequence[str] | None = None) -> int:
    """Read the command line and train; the result is the exit code."""
    try:
        arguments = parser().parse_args(argv)
        if arguments.print_config and not arguments.resume:
            print(json.dumps(_config(arguments).as_dict(), indent=2, ensure_ascii=False))
            return 0
        if arguments.compare:
            compare(arguments.compare, arguments.runs, arguments.picture, sys.stdout)
            return 0
        if arguments.picture:
            raise UsageError("--picture is drawn of runs that are compared: --compare RUN RUN --picture FILE.svg")
        return _train(train, arguments, sys.stdout)
    except (UsageError, OthelloError) as error:
        note(TRAIN, error)
        return getattr(error, "exit_code", 2)
    except ModuleNotFoundError as error:
        note(TRAIN, missing_package(error))
        return 1
    except KeyboardInterrupt:
        note(TRAIN, "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        give_up_stdout()
        return 1
    except OSError as error:
        note(TRAIN, f"{error.filename or 'files'}: {error.strerror or error}")
        return 1


def _config(arguments: Namespace) -> Config:
    config = load_preset(arguments.preset or (OWN_PRESET if arguments.net else DEFAULT_PRESET))
    if arguments.net:
        config = config.changed(net=_named_net(arguments.net))
    given = {"seed": arguments.seed, "device": arguments.device, "games": arguments.games}
    return config.changed(arguments.set, **{key: value for key, value in given.items() if value is not None})


def _named_net(name: str) -> dict[str, Any]:
    """The configuration of the net that ``--net`` names; a user's class is imported for it, and from now on known."""
    if name in KINDS:
        return {"kind": name}
    if ":" not in name:
        raise UsageError(f"--net {name}: {did_you_mean(name, KINDS)}; or write {HOW}")
    made_of = name_class(name)
    return {"kind": ModuleOptions.kind, "source": full_source(name), "options": checked_options(made_of, {})}


def _renamed(config: Config, name: str) -> Config:
    """A run's configuration with the class of its net where the user says that it is now."""
    if config.net["kind"] != ModuleOptions.kind or name in KINDS:
        raise UsageError(f"--net cannot go with --resume here: the run goes on with its {config.net['kind']} net")
    return config.changed(net=config.net | {"source": _named_net(name)["source"]})


def _train(train: Loop, arguments: Namespace, out: TextIO) -> int:
    config = None if arguments.resume else _config(arguments)
    if arguments.resume:
        if arguments.print_config:
            raise UsageError("--print-config shows a preset's settings; a run keeps its own in config.json")
        for name in ("preset", "run", "seed", "set"):
            if getattr(arguments, name) not in (None, []):
                raise UsageError(f"--{name} cannot go with --resume: a resumed run keeps its settings")
    # Torch takes seconds to load: what is wrong with the words was said before.
    from othello_nn.learn import distributed
    from othello_nn.learn.make import choose_place, plays_in_threads
    from othello_nn.learn.runs import Run

    run = None
    if config is None:
        run = Run.open(arguments.runs, arguments.resume)
        config = run.config.changed(games=arguments.games or run.config.games)
        if arguments.net:
            config = _renamed(config, arguments.net)
    else:
        Run.check_target(arguments.runs, arguments.run)
        if code := _prepare(train, arguments, config):
            return code
        if config.init and arguments.runs != RUNS and find_run(config.init, arguments.runs):
            # A name alone would be looked for in runs/.
            config = config.changed(init=str(find_net(config.init, arguments.runs)))
        if config.learner == "searched":  # a run may be resumed from anywhere
            given = {"folder": config.searched.folder, "games": config.searched.games}
            config = config.changed([f"searched.{name}={Path(path).resolve()}" for name, path in given.items() if path])
    place = choose_place(config, arguments.device or config.device, int(os.environ.get("LOCAL_RANK", "0")))
    group = distributed.join(place.device)
    try:
        learning, threads, code = group, _cores(arguments.threads, group), 0
        if plays_in_threads(config, place.device):
            learning, threads = distributed.pool_cores(group, threads)
        if threads:  # else another rank has its cores now
            told = run, arguments.run, arguments.runs, arguments.minutes, arguments.json, place.why
            code = _train_job(train, Job(config, place.device, learning, threads, *told, started=group.size), out)
        if learning is not group and not distributed.wait_for_all():
            return code or 1
        return code
    finally:
        distributed.leave()


def _train_job(train: Loop, job: Job, out: TextIO) -> int:
    _set_torch_threads(job.threads, job.config)
    summary = train(job)
    if job.group.is_rank_0:
        _report(summary, job.quiet, out)
    if summary.unsaved:
        note(TRAIN, f"the run's last state is not saved: {summary.unsaved}")
        return 1
    return INTERRUPTED if summary.interrupted else 0


def _prepare(train: Loop, arguments: Namespace, config: Config) -> int:
    """Train the net that a run starts from, if that is another preset's and not there yet; its exit code."""
    from othello_nn.learn.runs import Run

    name, runs = config.init, arguments.runs
    if name not in preset_names() or name in shipped_nets():
        return 0
    begun = (runs / name / "state.safetensors").is_file()
    if begun and Run.open(runs, name).finished:
        return 0
    games = config.searched.games
    if games and not Path(games).is_file():  # what would stop the run afterwards is said before
        raise ConfigError(f"searched.games: there is no file {games!r}")
    note(TRAIN, f"{config.preset} starts from the net of the preset {name}, so that comes first")
    words = ["--resume", name] if begun else ["--preset", name, "--run", name]
    first = parser().parse_args(words)
    for option in ("minutes", "threads", "device", "runs"):
        setattr(first, option, getattr(arguments, option))
    code = _train(train, first, sys.stderr)
    if not code and not Run.open(runs, name).finished:
        note(TRAIN, f"{name} is not finished; the same command goes on with it")
        return 1
    return code


def _cores(threads: int | None, group: Group) -> int:
    """Of this rank: as many as it was told to take, or its share of the machine's."""
    return threads or max(1, (os.cpu_count() or 1) // group.local_size)


def _set_torch_threads(threads: int, config: Config) -> None:
    """Torch takes half of this rank's cores, since compiled games are played in the others meanwhile; of a net that
    does not compile torch plays the games, too, and takes them all."""
    import torch

    from othello_nn.engine.leaf.compile import why_not_compiled

    torch.set_num_threads(threads if why_not_compiled(config.net) else max(1, threads // 2))


def _report(summary: Summary, as_json: bool, out: TextIO) -> None:
    run = summary.run
    scores = {name: round(score, 4) for name, score in summary.results.items()}
    if as_json:
        facts = {"run": run.name, "net": str(run.net_path), "games": summary.games, "seconds": summary.seconds}
        print(json.dumps(facts | {"finished": summary.finished, "scores": scores}), file=out)
        return
    again = run.name if run.folder.parent == RUNS else run.folder
    how = "finished" if summary.finished else f"stopped; go on with: {command(TRAIN)} --resume {again}"
    print(f"play against it:  {command(PLAY)} --player {run.player}", file=out)
    print(f"{run.name}: {how}", file=out)
    print(f"{summary.games:,} {summary.unit} in {summary.seconds:.0f} s", file=out)
    elo = scores.pop("elo", None)
    print("scores at 1-ply: " + ", ".join(f"{name} {score:.3f}" for name, score in scores.items()), file=out)
    if elo is not None:
        curve, first = summary.curve, summary.curve[0]
        shown = len(curve) > 2 and can_show_sparkline(out)
        grown = f"{sparkline(curve, 0, max(1.0, *curve))}  {first:.0f} to " if shown else ""
        print(
            f"Elo:              {grown}{elo:.0f} on the ladder from random (0) to champion ({summary.top:.0f})",
            file=out,
        )
    print(f"let it play:      {command(PLAY)} match {run.player} swh", file=out)
    print(f"ask it:           {command(PLAY)} bestmove start --player {run.player}", file=out)
