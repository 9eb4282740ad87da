"""The learner that a configuration asks for."""

from __future__ import annotations

from othello_nn.config import Config, ConfigError
from othello_nn.engine.leaf.embedded import DIMS
from othello_nn.errors import did_you_mean
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Learner, first_net
from othello_nn.learn.td.embedding_learner import EmbeddingLearner
from othello_nn.learn.td.learners import TDLearner
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.nets import NTupleNet, make_net
from othello_nn.program import TRAIN, note


def make_learner(config: Config, device: str, group: Group, threads: int, *, resumed: bool = False) -> Learner:
    """The learner of a configuration, at its beginning. To be ``resumed`` it needs no net to start from."""
    config = config.changed(init="") if resumed else config
    if config.learner == "td":
        return make_td_learner(config, device, group, threads)
    if group.size > 1:
        raise ConfigError(f"the learner {config.learner!r} works in one process; torchrun is for 'td'")
    if device != "cpu":
        raise ConfigError(f"the learner {config.learner!r} works on the CPU; leave out --device {device}")
    if config.init:
        raise ConfigError(f"the learner {config.learner!r} starts from nothing; init is for 'td'")
    if config.learner == "leouski":
        from othello_nn.learn.leouski import LeouskiLearner

        return LeouskiLearner(config.net, config.leouski, total_games=config.games, seed=config.seed)
    if config.learner == "evolve":
        from othello_nn.learn.evolve import EvolutionLearner

        return EvolutionLearner(config.net, config.evolve, seed=config.seed, threads=threads)
    net = make_net(config.net)
    if config.learner == "backwards":
        from othello_nn.learn.backwards import BackwardsLearner

        if not isinstance(net, NTupleNet):
            raise ConfigError(f"learning backwards is for n-tuple nets, not {net.kind}")
        return BackwardsLearner(net, config.backwards, seed=config.seed, threads=threads)
    raise ConfigError(f"unknown learner {config.learner!r}; {did_you_mean(config.learner, Config.LEARNERS)}")


def make_td_learner(config: Config, device: str, group: Group, threads: int) -> TDLearner:
    """The fastest learner for a configuration."""
    net = first_net(config)
    online = device == "cpu" and config.optim.kind in ("tc", "sgd")
    if online and isinstance(net, NTupleNet) and net.view == "inversion" and not (net.dim == 1 and net.shared):
        learner = OnlineLearner if net.dim == 1 else EmbeddingLearner
        if config.optim.minibatch:
            raise ConfigError("optim.minibatch does nothing here: this net learns game by game; take optim.kind=adam")
        if learner is OnlineLearner or _learns_vectors(net, group):
            return learner(config, net, group, threads)
    return TorchLearner(config, net.to(device), group, threads, device)


def _learns_vectors(net: NTupleNet, group: Group) -> bool:
    """Whether the compiled learner takes an embedding net; a line if only the number of ranks is in its way."""
    if net.dim > max(DIMS):
        return False
    if group.size > 1 and group.is_rank_0:
        note(TRAIN, "an embedding net learns in compiled code in one process only; these ranks learn by autograd")
    return group.size == 1
