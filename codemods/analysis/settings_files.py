"""Files of settings that are about builds, packages and tests, and not about a training run."""

from __future__ import annotations

import re

#: Where "cuda" or "gpu" is a build, a package or a machine, and no device of torch.
_BUILDS = re.compile(
    r"^(\.github|\.gitlab|\.circleci|\.azure|\.buildkite)(/|$)|(^|/)\.github/|"
    r"(^|/)(package(-lock)?|tsconfig|composer|vcpkg|conanfile|mkdocs|\.pre-commit-config|"
    r"pyproject|Pipfile|poetry|environment|conda|meta|recipe)\w*\.(json|ya?ml|toml)$"
)


def builds(path: str) -> bool:
    """Is the file about a build, a package or a machine that runs tests?"""
    return _BUILDS.search(path.replace("\\", "/")) is not None
