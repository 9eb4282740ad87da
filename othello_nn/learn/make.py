"""The learner that a configuration asks for, and where it learns."""

from __future__ import annotations

from othello_nn.config import Config, ConfigError
from othello_nn.engine.leaf.compile import why_not_compiled
from othello_nn.engine.leaf.embedded import DIMS
from othello_nn.errors import did_you_mean
from othello_nn.kinds import NTupleOptions, net_options
from othello_nn.learn.device import Place
from othello_nn.learn.distributed import Group
from othello_nn.learn.learner import Learner, first_net
from othello_nn.learn.td.embedding_learner import EmbeddingLearner
from othello_nn.learn.td.learners import TDLearner
from othello_nn.learn.td.online_learner import OnlineLearner
from othello_nn.learn.td.torch_learner import TorchLearner
from othello_nn.nets import NTupleNet, make_net
from othello_nn.nets.device import choose_device
from othello_nn.program import TRAIN, note


def make_learner(config: Config, device: str, group: Group, threads: int, *, resumed: bool = False) -> Learner:
    """The learner of a configuration, at its beginning. To be ``resumed`` it needs no net to start from."""
    if config.learner == "searched":
        from othello_nn.learn.data.learner import SearchedLearner

        return SearchedLearner(config, group, threads, device, resumed=resumed)
    config = config.changed(init="") if resumed else config
    if config.learner == "td":
        return make_td_learner(config, device, group, threads)
    if group.size > 1:
        raise ConfigError(f"the learner {config.learner!r} works in one process; torchrun is for 'td'")
    if config.init:
        raise ConfigError(f"the learner {config.learner!r} starts from nothing; init is for 'td'")
    if config.learner == "leouski":
        from othello_nn.learn.leouski import LeouskiLearner

        return LeouskiLearner(config.net, config.leouski, total_games=config.games, seed=config.seed)
    if config.learner == "evolve":
        from othello_nn.learn.evolve import EvolutionLearner

        return EvolutionLearner(config.net, config.evolve, seed=config.seed, threads=threads)
    if config.learner == "policy":
        from othello_nn.learn.policy import PolicyLearner

        return PolicyLearner(config.net, config.policy, total_games=config.games, seed=config.seed)
    net = make_net(config.net)
    if config.learner == "backwards":
        from othello_nn.learn.backwards import BackwardsLearner

        if not isinstance(net, NTupleNet):
            raise ConfigError(f"learning backwards is for n-tuple nets, not {net.kind}")
        return BackwardsLearner(net, config.backwards, seed=config.seed, threads=threads)
    raise ConfigError(f"unknown learner {config.learner!r}; {did_you_mean(config.learner, Config.LEARNERS)}")


def make_td_learner(config: Config, device: str, group: Group, threads: int) -> TDLearner:
    """The fastest learner for a configuration, on a device."""
    net = first_net(config)
    if device == "cpu" and isinstance(net, NTupleNet) and learns_on_line(config):
        learner = OnlineLearner if net.dim == 1 else EmbeddingLearner
        if config.optim.minibatch:
            raise ConfigError("optim.minibatch does nothing here: this net learns game by game; take optim.kind=adam")
        if learner is OnlineLearner or _learns_vectors(group):
            return learner(config, net, group, threads)
    return TorchLearner(config, net.to(device), group, threads, device)


def learns_on_line(config: Config) -> bool:
    """Whether the net is tables that a kernel moves game by game, on a CPU."""
    options = net_options(config.net)
    if not isinstance(options, NTupleOptions) or options.sees_colours or config.optim.kind not in ("tc", "sgd"):
        return False
    return not options.shared if options.dim == 1 else options.heads == 1 and options.dim <= max(DIMS)


def plays_in_threads(config: Config, device: str) -> bool:
    """Whether games are played in threads beside the learning, both on the CPU."""
    return device == "cpu" and config.learner == "td" and not why_not_compiled(config.net)


def choose_place(config: Config, name: str, local_rank: int = 0) -> Place:
    """Where a run learns that was told ``auto``, ``cpu``, ``cuda`` or ``cuda:N``, and why."""
    device = choose_device(name, local_rank)
    if device == "cpu":
        return Place(device)
    if config.learner not in ("td", "searched"):
        return Place("cpu", f"where the learner {config.learner!r} works")
    if config.learner == "searched":
        return Place(device, "where nets are fitted fastest" if name == "auto" else "")
    if name == "auto" and learns_on_line(config):
        return Place("cpu", "where its tables learn game by game, faster than in batches on the GPU")
    return Place(device, "where nets learn fastest by autograd" if name == "auto" else "")


def _learns_vectors(group: Group) -> bool:
    """Whether the compiled learner takes an embedding net; a line if the number of ranks is in its way."""
    if group.size > 1 and group.is_rank_0:
        note(TRAIN, "an embedding net learns in compiled code in one process only; these ranks learn by autograd")
    return group.size == 1
