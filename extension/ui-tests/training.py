"""Make `notebooks/images/training.webp`: the page while a network trains.

Run it in an environment that has Pillow besides what the tests in a browser need, from
anywhere: `python extension/ui-tests/training.py`. Look at what comes out.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

UI_TESTS = Path(__file__).resolve().parent
TARGET = UI_TESTS.parents[1] / "notebooks" / "images" / "training.webp"
#: Of the picture, in pixels; of a frame and of the last one, in milliseconds.
WIDTH, SHOWN, LAST = 1120, 180, 2500
#: How often it plays: what moves for ever cannot be read beside.
TIMES = 3
MOST_BYTES = 1_500_000


def take_frames(folder: Path) -> list[Image.Image]:
    """Return what the tests' browser shows, frame by frame, without repetitions."""
    frames = {**os.environ, "WORKBENCH_FRAMES": str(folder)}
    subprocess.run(["jlpm", "test"], cwd=UI_TESTS, env=frames, check=True)
    images: list[Image.Image] = []
    for path in sorted(folder.glob("*.png")):
        image = Image.open(path).convert("RGB")
        height = round(image.height * WIDTH / image.width)
        images.append(image.resize((WIDTH, height), Image.Resampling.LANCZOS))
    return images


def write_animation(images: list[Image.Image], target: Path) -> int:
    """Write the frames into one file that moves, and return its size in bytes."""
    durations = [SHOWN] * (len(images) - 1) + [LAST]
    first, *others = images
    first.save(
        target, save_all=True, append_images=others, duration=durations, loop=TIMES,
        quality=85, method=6, minimize_size=True,
    )  # fmt: skip
    return target.stat().st_size


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        images = take_frames(Path(folder))
        size = write_animation(images, TARGET)
    print(f"{TARGET}: {len(images)} frames, {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"it may have {MOST_BYTES:,}: show less, or show it shorter")
