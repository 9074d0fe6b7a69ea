"""Tiny data sets, in the formats that scripts ask for, for recipes whose own data cannot be had."""

from __future__ import annotations

import gzip
import json
import random
import struct
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np

WORDS = [
    "the",
    "river",
    "ran",
    "past",
    "old",
    "mills",
    "while",
    "children",
    "counted",
    "boats",
    "and",
    "birds",
    "over",
    "stones",
]


def enwik8(path: Path) -> None:
    """95 million bytes of text, the same 200 kB again and again, as a gzip file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = sentences(40_000).encode()
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(95_000_000 // len(part) + 1):
            file.write(part)


def text(path: Path) -> None:
    """A plain text of short lines, 30 kB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(sentences(6_000))


def sentences(count: int) -> str:
    """``count`` words in lines of ten."""
    draw = random.Random(1)
    words = [draw.choice(WORDS) for _ in range(count)]
    return "".join(word + ("\n" if n % 10 == 9 else " ") for n, word in enumerate(words))


def wiki(path: Path) -> None:
    """A folder with train.txt, valid.txt and test.txt."""
    path.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 4_000), ("valid", 1_000), ("test", 1_000)):
        (path / f"{name}.txt").write_text(sentences(count))


def alpaca(path: Path) -> None:
    """A list of instructions with and without input."""
    draw = random.Random(2)
    rows = []
    for number in range(24):
        words = [draw.choice(WORDS) for _ in range(12)]
        rows.append(
            {
                "instruction": " ".join(words[:4]),
                "input": " ".join(words[4:7]) if number % 2 else "",
                "output": " ".join(words[7:]),
            }
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))


def speech(path: Path) -> None:
    """A folder ``wavs`` of eight tones of 0.6 s at 22,050 Hz, and train.txt, valid.txt naming them (``name|text``)."""
    rate, names = 22_050, [f"tone{n}" for n in range(8)]
    (path / "wavs").mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        time = np.arange(int(0.6 * rate)) / rate
        samples = (9_000 * np.sin(2 * np.pi * (150 + 40 * number) * time)).astype(np.int16)
        with wave.open(str(path / "wavs" / f"{name}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    for name, chosen in (("train.txt", names[:6]), ("valid.txt", names[6:])):
        (path / name).write_text("".join(f"{n}|{WORDS[0]} {WORDS[1]}\n" for n in chosen))


def librosa(path: Path) -> None:
    """A stand-in package with the two functions of the library's old releases that vocoders call."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "__init__.py").write_text("")
    (path / "util.py").write_text(
        "import numpy as np\n\n\ndef normalize(x):\n    return x / max(np.abs(x).max(), 1e-9)\n"
    )
    (path / "filters.py").write_text(MEL)


MEL = '''import numpy as np


def mel(sr, n_fft, n_mels, fmin, fmax):
    """Triangles of equal width in mel over the bins of an FFT."""
    top = 2595 * np.log10(1 + np.array([fmin, fmax or sr / 2]) / 700)
    edges = 700 * (10 ** (np.linspace(*top, n_mels + 2) / 2595) - 1)
    bins = np.linspace(0, sr / 2, n_fft // 2 + 1)
    rise = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(rise, fall)).astype(np.float32)
'''

MAKERS: dict[str, Callable[[Path], None]] = {
    maker.__name__: maker for maker in (enwik8, text, wiki, alpaca, speech, librosa)
}
