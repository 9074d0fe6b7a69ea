"""Used by setuptools alone: puts ``hpushim.pth`` at the top of what is installed, where Python reads it at start-up."""

from __future__ import annotations

from pathlib import Path

from setuptools.command.build_py import build_py

_NAME = "hpushim.pth"


class WithPth(build_py):  # type: ignore[misc]  # setuptools has no types here
    """``build_py`` with the one file that is no part of a package; also for editable installs."""

    def run(self) -> None:
        """Builds the packages, then places the file beside them."""
        super().run()
        # An editable wheel holds no packages; what it installs besides its finder lies where `install` points.
        place = (
            self.get_finalized_command("install").install_lib
            if self.editable_mode
            else self.build_lib
        )
        self.copy_file(str(Path(__file__).with_name(_NAME)), str(Path(place, _NAME)))
