"""One real repository: its copies, its runs on CPU, under the shim and migrated, and what is compared."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import made_data
import running
from recipes import Place, Workload
from running import LIMIT, NUMBER, Run, Way
from verdict import CODE, Verdict

SEED_LINE = (
    "import random, numpy, torch; random.seed(1); numpy.random.seed(1); torch.manual_seed(1)\n"
)
DEVICE_SHARE = 0.99
INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"  # parentheses two deep
#: What turns a script that knows CUDA only into its own reference on CPU, as a person would do it by hand.
FOR_CPU = (
    (rf"\.cuda\({INSIDE}\)", ""),
    (rf"torch\.cuda\.set_device\({INSIDE}\)", "None"),
    (r"torch\.cuda\.(synchronize|empty_cache)\(\)", "None"),
    (r"torch\.cuda\.is_available\(\)", "True"),
    (r"torch\.cuda\.current_device\(\)", '"cpu"'),
    (r"torch\.cuda\.manual_seed\b", "torch.manual_seed"),
    (r"(['\"])nccl\1", '"gloo"'),
    (r"\b(device_ids|output_device)=[^,()]*(?=[,)])", r"\1=None"),
    (r"f?(['\"])cuda(:\d|:\{[^{}]*\})?\1", '"cpu"'),
)
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # the scripts' own checkpoints, older than weights_only
    "MPLBACKEND": "Agg",
    "WANDB_MODE": "disabled",
}


def seeded(text: str) -> str:
    """The script with a seed set at its top, below the imports from ``__future__``."""
    last = [
        match.end() for match in re.finditer(r"^from __future__ import .*\n", text, re.MULTILINE)
    ]
    cut = last[-1] if last else 0
    return text[:cut] + SEED_LINE + text[cut:]


def edited(root: Path, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Files with their new text: ``words`` are file, regular expression, replacement, again and again."""
    for file, old, new in zip(words[::3], words[1::3], words[2::3], strict=True):
        text, count = re.subn(old, new, (root / file).read_text(), flags=re.MULTILINE)
        if not count:
            raise ValueError(f"{old!r} is not in {file}")
        yield file, text


class Trial:
    """One workload, its copies and its runs, in a folder of its own."""

    def __init__(
        self, work: Workload, place: Place, out: Path, limit: float = LIMIT, style: str = "native"
    ) -> None:
        self.work, self.place, self.style = work, place, style
        self.until = time.monotonic() + limit
        self.home = out / work.name
        self.verdict = Verdict(work.name)
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)

    def sources(self, name: str) -> Path:
        """A copy of the repository's folder, without data, as it stood."""
        root = self.home / name
        source = self.place.corpora / self.work.repo / self.work.folder
        leave = (
            ("*.ipynb", "*.pth", "*.zip", "*.gif", "docs", "tests")
            if self.work.folder == "."
            else ()
        )
        running.fresh_copy(source, root / self.work.folder, leave)
        for file, text in edited(root, self.work.small):
            (root / file).write_text(text)
        for file in self.work.seed:
            path = root / file
            path.write_text(seeded(path.read_text()))
        return root

    def add_data(self, root: Path) -> None:
        """Puts the data where the script looks for them, then runs what prepares them."""
        for source, target in self.work.links.items():
            to, data = root / target, self.place.data / source
            shutil.rmtree(to, ignore_errors=True)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(data, to) if data.is_dir() else shutil.copy(data, to)
        for kind, target in self.work.make.items():
            made_data.MAKERS[kind](root / target)
        for script in self.work.prepare:
            running.execute(
                [self.place.python, script], root / self.work.cwd, env=self.environment()
            )

    def environment(self) -> dict[str, str]:
        """Offline, with the workload's import path."""
        env = {
            **OFFLINE,
            "HF_HOME": str(self.place.data / "hf"),
            "WORKLOAD_DATA": str(self.place.data),
        }
        if self.work.devices > 1:
            env["HPUSHIM_DEVICES"] = str(self.work.devices)
        if self.work.path:
            env["PYTHONPATH"] = self.work.path.format(data=self.place.data)
        return env

    def run(self, way: Way, name: str, switch: str) -> Run:
        """Runs the script of a copy and keeps its log."""
        on_cpu = self.work.has_cpu_switch and switch == self.work.cpu
        tag = f"{name}-{way}{'-cpu' if on_cpu else ''}"
        books = self.home / f"{tag}-ledger.json" if way != "plain" else None
        words = f"{self.work.words} {switch}".replace("{data}", str(self.place.data)).split()
        result = running.run(
            way,
            words,
            self.home / name / self.work.cwd,
            books,
            self.environment(),
            self.place.python,
            max(1, int(self.until - time.monotonic())),
        )
        (self.home / f"{tag}.log").write_text(f"$ {result.command}\n{result.output}")
        if not (self.work.refused and way != "plain" and not on_cpu):
            self.verdict.check(result.ok, f"{tag}: exit code {result.rc}: {result.tail(3)}")
        return result

    def losses(self, result: Run) -> list[str]:
        """Every loss that was printed, as printed."""
        return re.findall(self.work.loss.replace("<n>", f"({NUMBER})"), result.output)

    def compare(self, label: str, result: Run, reference: Run) -> None:
        """The last loss against the CPU's, the device share, the calls without an answer."""
        verdict = self.verdict
        if self.work.refused:
            said = not result.ok and re.search(self.work.refused, result.tail(3))
            verdict.cells[label] = "refused" if said else "not refused"
            verdict.refused = " ".join(
                sorted({*verdict.refused.split(), *CODE.findall(result.tail(3) + self.work.warned)})
            )
            verdict.check(
                bool(said), f"{label}: no message {self.work.refused!r}: {result.tail(3)}"
            )
            return
        if not result.ok:
            verdict.cells[label] = "failed"
            return
        found, wanted = self.losses(result), self.losses(reference)
        if not found or not wanted:
            verdict.check(False, f"{label}: no loss was printed")
            verdict.cells[label] = "no loss"
            return
        if self.work.devices > 1:  # the ranks' lines come in any order
            pairs = list(zip(sorted(map(float, found)), sorted(map(float, wanted)), strict=False))
        else:
            pairs = [(float(found[-1]), float(wanted[-1]))]
        distance = max(running.relative(ours, theirs) for ours, theirs in pairs)
        verdict.check(len(found) == len(wanted), f"{label}: {len(found)} losses, not {len(wanted)}")
        verdict.cells[label] = f"{distance:.1e}"
        verdict.check(
            distance <= self.work.within,
            f"{label}: loss {found[-1]}, on CPU {wanted[-1]}: {distance:.1e} > {self.work.within}",
        )
        if not self.work.device:
            return
        verdict.cells[f"{label} on hpu"] = f"{result.share():.1%}"
        verdict.cells[f"{label} marks"] = str(result.total("mark_steps"))
        verdict.check(
            result.share() >= DEVICE_SHARE,
            f"{label}: {result.share():.1%} of the compute operators on hpu",
        )
        verdict.check(
            "cpu" not in result.parameters(),
            f"{label}: parameters trained on {result.parameters()}",
        )
        verdict.cells["unhandled"] = str(
            int(verdict.cells.get("unhandled", 0)) + len(result.unhandled())
        )
        for call in sorted(set(result.unhandled())):
            verdict.check(False, f"{label}: unhandled {call}")

    def prove(self, only: str = "") -> Verdict:
        """All checks of this workload, or what it lacks here."""
        begin = time.monotonic()
        self.verdict.skipped = self.lacking()
        if not self.verdict.skipped:
            self.prove_all(only or self.work.only)
        self.verdict.seconds = time.monotonic() - begin
        return self.verdict

    def lacking(self) -> str:
        """What this machine lacks for the workload, "" when it has all."""
        if not (self.place.corpora / self.work.repo).is_dir():
            return f"{self.work.repo} is not in HPUSHIM_CORPORA"
        for name in self.work.links:
            if not (self.place.data / name).exists():
                return f"{name} is not in HPUSHIM_CORPORA_DATA"
        for name in self.work.needs:
            found = f"import importlib.util as u, sys; sys.exit(u.find_spec({name!r}) is None)"
            if not running.execute([self.place.python, "-c", found], self.home).ok:
                return f"needs {name}"
        return ""

    def prove_all(self, only: str) -> None:
        """The CPU's run, the shim's, the migrated copy's."""
        self.sources("original")
        self.add_data(self.home / "original")
        other = self.work.as_on_cuda or self.work.cuda_only
        reference = self.run_as_on_cuda() if other else None
        if self.work.cuda_only and reference:
            on_cpu = reference
        else:
            on_cpu = self.run("plain", "original", self.work.cpu)
        reference = reference or on_cpu
        if on_cpu.ok and reference.ok:
            how = "edited for CPU" if self.work.cuda_only else "data as on CUDA"
            if on_cpu is reference and not self.work.cuda_only:
                how = self.work.cpu or "as it is"
            self.verdict.cells["reference"] = how
            self.verdict.cells["loss"] = (self.losses(reference) or ["none"])[-1]
            if only != "native":
                result = self.run("shim", "original", self.work.switch("shim"))
                self.compare("shim", result, reference)
            if only != "shim":
                self.prove_migration(on_cpu, reference)

    def run_as_on_cuda(self) -> Run:
        """The CPU run of a copy that does what the script does on CUDA only (shuffles, say)."""
        root = self.sources("reference")
        for file in self.work.cuda_only:
            text = (root / file).read_text()
            for old, new in FOR_CPU:
                text = re.sub(old, new, text)
            (root / file).write_text(text)
        for file, text in edited(root, self.work.as_on_cuda):
            (root / file).write_text(text)
        self.add_data(self.home / "reference")
        return self.run("plain", "reference", self.work.cpu)

    def prove_migration(self, on_cpu: Run, reference: Run) -> None:
        """Migrates a copy, runs it, and sees that migrating is idempotent, reversible and leaves the rest alone."""
        verdict = self.verdict
        root = self.sources("migrated")
        before = running.snapshot(root)
        first = self.migrate(root)
        if self.work.refused:
            warned = re.search(self.work.warned, first.output) and "needs work" in first.output
            verdict.check(bool(warned), "migrate does not warn of what stops the run on HPU")
        after = running.snapshot(root)
        changed = [name for name in after if before.get(name, (b"",))[0] != after[name][0]]
        touched = [name for name in after if name in before and before[name] != after[name]]
        verdict.cells["files"] = f"{len(changed)}/{len(after)}"
        verdict.check(first.rc in (0, 1), f"migrate: exit code {first.rc}: {first.tail(3)}")
        verdict.check(set(before) == set(after), "migrate added or removed files")
        verdict.check(
            set(touched) == set(changed),
            f"modification time changed: {sorted(set(touched) - set(changed))}",
        )
        verdict.check(self.work.device or not changed, f"nothing to change, yet changed: {changed}")
        second = self.migrate(root)
        verdict.check(running.snapshot(root) == after, "a second migrate changed something")
        verdict.check(
            second.rc in (0, 1), f"second migrate: exit code {second.rc}: {second.tail(3)}"
        )
        self.undo_works(root, before)

        if not self.work.device:
            return
        self.add_data(root)
        self.compare(
            "native", self.run("native", "migrated", self.work.switch("native")), reference
        )
        if self.work.has_cpu_switch and not self.work.cuda_only:
            cpu = self.run("native", "migrated", self.work.cpu)
            same = cpu.ok and self.losses(cpu) == self.losses(on_cpu)
            verdict.cells["cpu"] = "equal" if same else "differs"
            verdict.check(
                same,
                f"migrated copy on CPU: losses {self.losses(cpu)[-3:]}, before {self.losses(on_cpu)[-3:]}",
            )

    def migrate(self, root: Path) -> Run:
        """Runs ``hpushim migrate`` on a copy."""
        result = running.hpushim(
            "migrate", "--style", self.style, "--allow-dirty", str(root), cwd=root, python=self.place.python
        )  # fmt: skip
        with (self.home / "migrate.log").open("a") as log:
            log.write(f"$ {result.command}\n{result.output}\n")
        return result

    def undo_works(self, root: Path, before: dict[str, tuple[bytes, int]]) -> None:
        """Undoes the migration in a second copy and compares every byte."""
        other = self.home / "undone"
        shutil.copytree(root, other, symlinks=True)
        undone = running.hpushim(
            "migrate", "--undo", str(other), cwd=other, python=self.place.python
        )
        now = running.snapshot(other)
        differs = [name for name in before if name not in now or now[name][0] != before[name][0]]
        self.verdict.check(
            undone.rc == 0 and not differs,
            f"--undo (exit code {undone.rc}) left {differs[:5]}: {undone.tail(2)}",
        )
        shutil.rmtree(other)
