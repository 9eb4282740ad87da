"""What pyproject.toml cannot say: an installed package takes along what a checkout has at its top.

The nets and the opening book in ``checkpoints/`` and ``train.py`` have their one home there, for people who look at a
checkout; a wheel has no top, so the build puts them inside the package. ``othello_nn/resources.py`` finds them
in either place.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithNets(build_py):
    """Copies the modules, then what lies beside the package. An editable installation uses the checkout itself."""

    def taken_along(self) -> dict[str, str]:
        """Where each file goes, and where it comes from."""
        if self.editable_mode:
            return {}
        checkpoints = sorted(path for kind in ("*.safetensors", "*.book") for path in Path("checkpoints").glob(kind))
        sources = [*checkpoints, Path("train.py")]
        return {str(Path(self.build_lib, "othello_nn", source)): str(source) for source in sources}

    def run(self) -> None:
        super().run()
        for target, source in self.taken_along().items():
            self.mkpath(str(Path(target).parent))
            self.copy_file(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *self.taken_along()]

    def get_output_mapping(self) -> dict[str, str]:
        return super().get_output_mapping() | self.taken_along()

    def get_source_files(self) -> list[str]:
        return [*super().get_source_files(), *self.taken_along().values()]


setup(cmdclass={"build_py": BuildWithNets})
