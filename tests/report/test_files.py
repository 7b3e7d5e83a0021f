"""Files are written whole or not at all; links are followed, devices and pipes written to and never replaced."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from monet.errors import MonetError
from monet.report.files import check_outputs, write_text


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "result.json", tmp_path / "latest.json"
    link.symlink_to(target)
    for text in ("one\n", "two\n"):
        write_text(str(link), text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert [path.name for path in target.parent.iterdir()] == ["result.json"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    check_outputs({}, {"--json": str(pipe)})
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_text(str(pipe), "{}\n")
    reader.join(10)
    assert found == ["{}\n"]
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no device that is always full")
def test_a_full_device_is_a_clear_error() -> None:
    with pytest.raises(MonetError, match="No space left"):
        write_text("/dev/full", "x" * 10_000)
    assert Path("/dev/full").is_char_device()
