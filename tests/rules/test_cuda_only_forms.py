"""What runs only where CUDA is, in the forms in which people write it: images, packages, extensions and guards."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target


def settled(text: str, kind: str = "python", name: str = "ops.py") -> tuple[str, list[str]]:
    """A file after the rewrite, and the codes of what is said of it."""
    done = settle(text, kind, name, Context(Target(), load()))  # type: ignore[arg-type]
    return done.text, [finding.code for finding in done.findings]


IMAGES = {
    "${IMAGE_NAME}:10.2-runtime-ubuntu18.04": True,
    "$BASE:12.1.1-cudnn8-devel-ubuntu22.04": True,
    "registry.example.org/ours:${CUDA}-base-ubi8": True,
    "mirror/cuda:12.4.1-devel-rockylinux9": True,
    "python:3.11-slim-bookworm": False,
    "ubuntu:22.04": False,
    "$BASE:latest": False,
    "debian:12.1-base": False,
}
WRITTEN = ["FROM {0}\n", "FROM --platform=linux/amd64 {0} AS build\n", "ARG BASE={0}\nFROM $BASE\n"]


@pytest.mark.parametrize("image", list(IMAGES))
@pytest.mark.parametrize("written", WRITTEN)
def test_an_image_is_known_by_its_tag(image: str, written: str) -> None:
    assert ("HPU810" in settled(written.format(image), "dockerfile", "Dockerfile")[1]) == IMAGES[image]  # fmt: skip


INSTALLED = {
    "cuda-nvml-dev-$CUDA_PKG_VERSION": True,
    "cuda-toolkit-12-1": True,
    "cuda": True,
    "libnccl-dev=$NCCL_VERSION-1+cuda10.2": True,
    "libnccl2": True,
    "libcublas-dev=10.2.2.89-1": True,
    "libcudnn8-dev": True,
    "libcufft-11-8": True,
    "libnvinfer8": True,
    "nvidia-cuda-toolkit": True,
    "libcurl4-openssl-dev": False,
    "libnuma-dev": False,
    "build-essential": False,
    "libncurses5": False,
    "libcunit1": False,
}
INSTALLS = ["apt-get update && apt-get install -y --no-install-recommends \\\n        git {0}", "sudo apt install {0}", "yum -y install {0}", "dnf install {0} gcc"]  # fmt: skip
FILES = {"dockerfile": ("Dockerfile", "FROM ubuntu:22.04\nRUN {0}\n"), "shell": ("install.sh", "#!/bin/bash\n{0}\n")}  # fmt: skip


@pytest.mark.parametrize(("package", "form"), crossed(list(INSTALLED), INSTALLS, rounds=2))
@pytest.mark.parametrize("kind", list(FILES))
def test_packages_of_a_distribution_that_install_cuda(package: str, form: str, kind: str) -> None:
    name, text = FILES[kind]
    assert ("HPU816" in settled(text.format(form.format(package)), kind, name)[1]) == INSTALLED[package]  # fmt: skip


@pytest.mark.parametrize("path", ["/usr/local/cuda/lib64/stubs", "/usr/local/cuda/bin:$PATH", "/usr/local/cuda-11.8"])  # fmt: skip
@pytest.mark.parametrize("form", ["ENV PATH={0}", "ENV LIBRARY_PATH {0}", "ENV A=1 LD_LIBRARY_PATH={0}", "RUN export PATH={0}"])  # fmt: skip
def test_a_path_of_the_toolkit_in_an_image(form: str, path: str) -> None:
    text = f"FROM ubuntu:22.04\n{form}\n"
    assert "HPU805" in settled(text.format(path), "dockerfile", "Dockerfile")[1]
    assert "HPU805" not in settled(text.format("/opt/ours"), "dockerfile", "Dockerfile")[1]
