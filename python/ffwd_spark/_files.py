"""Files of an object store, read for ffwd: it asks for parts of them over a Unix socket, and nothing is put on a disk.

Questions and answers are those of crates/disk/src/served.rs. A file is read in pieces, the next one ahead of its question
where reading goes on; few pieces are kept, so that a task takes little memory.
"""

from __future__ import annotations

import os
import socketserver
import struct
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ._binary import FfwdError

#: Bytes that are asked of the store at a time.
PIECE_BYTES = 4 << 20
#: Pieces that are kept.
PIECES_MAX = 16
#: Requests to the store at a time.
THREADS = 8
#: Bytes of an answer at most, as ffwd asks.
READ_BYTES_MAX = 8 << 20


def filesystem(url: str, storage: Mapping[str, Any]) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError as why:
        raise FfwdError(f"{url}: an object store wants fsspec and the package of its kind, such as s3fs") from why
    try:
        fs, path = fsspec.core.url_to_fs(url, **dict(storage))
    except (ImportError, ValueError) as why:
        raise FfwdError(f"{url}: {why}") from why
    return fs, str(path).rstrip("/")


class Store:
    """The files below a path of a file system of fsspec."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs, self.root = fs, root
        self._lock = threading.Lock()
        self._pieces: OrderedDict[tuple[str, int], Future[bytes]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(THREADS, "ffwd-store")

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def path(self, below: str) -> str:
        """A path in the file system."""
        if ".." in below.split("/"):
            raise ValueError(f"{below}: not below {self.root}")
        return f"{self.root}/{below}" if below else self.root

    def info(self, below: str) -> tuple[bool, int]:
        """Whether it is a directory, and its length."""
        found = self.fs.info(self.path(below))
        if found["type"] == "directory":
            return True, 0
        size = int(found["size"])
        with self._lock:
            self._sizes[below] = size
        return False, size

    def names(self, below: str) -> list[tuple[bool, str]]:
        """The names in a directory, and whether they are directories."""
        path = self.path(below).strip("/")
        found = [(one["type"] == "directory", str(one["name"]).strip("/")) for one in self.fs.ls(self.path(below), detail=True)]
        # A store may name the directory itself.
        return [(is_dir, name.rsplit("/", 1)[-1]) for is_dir, name in found if name != path]

    def read(self, below: str, start: int, count: int) -> bytes:
        """Bytes of a file; all of them are there."""
        size = self._sizes.get(below)
        if size is None:
            _, size = self.info(below)
        if not 0 <= start <= start + count <= size:
            raise ValueError(f"{below}: bytes {start} to {start + count} of {size}")
        out = bytearray()
        while len(out) < count:
            at = start + len(out)
            number, skip = divmod(at, PIECE_BYTES)
            out += self._piece(below, number, size)[skip : skip + count - len(out)]
        return bytes(out)

    def _piece(self, below: str, number: int, size: int) -> bytes:
        with self._lock:
            goes_on = (below, number - 1) in self._pieces
            piece = self._asked(below, number, size)
            if goes_on and (number + 1) * PIECE_BYTES < size:
                self._asked(below, number + 1, size)
        try:
            return piece.result()
        except Exception:
            with self._lock:
                self._pieces.pop((below, number), None)
            raise

    def _asked(self, below: str, number: int, size: int) -> Future[bytes]:
        key = (below, number)
        piece = self._pieces.get(key)
        if piece is None:
            piece = self._pieces[key] = self._pool.submit(self._fetch, below, number, size)
            while len(self._pieces) > PIECES_MAX:
                self._pieces.popitem(last=False)
        self._pieces.move_to_end(key)
        return piece

    def _fetch(self, below: str, number: int, size: int) -> bytes:
        start, end = number * PIECE_BYTES, min((number + 1) * PIECE_BYTES, size)
        found = bytes(self.fs.cat_file(self.path(below), start=start, end=end))
        if len(found) != end - start:
            raise OSError(f"{below}: {len(found)} bytes from {start} on, wanted {end - start}: it was replaced or cut")
        return found


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path: str, store: Store) -> None:
        self.store = store
        super().__init__(path, _Asked)


class _Asked(socketserver.BaseRequestHandler):
    """One connection: a question after the other."""

    server: _Server

    def handle(self) -> None:
        while head := self._bytes(3):
            kind, length = struct.unpack("<cH", head)
            below = os.fsdecode(self._bytes(length))
            place = struct.unpack("<QI", self._bytes(12)) if kind == b"R" else (0, 0)
            self.request.sendall(self._answer(kind, below, *place))

    def _bytes(self, count: int) -> bytes:
        """``count`` bytes; none where the connection ends before the first."""
        out = bytearray()
        while len(out) < count:
            try:
                some = self.request.recv(count - len(out))
            except ConnectionError:
                some = b""
            if not some:
                return b""
            out += some
        return bytes(out)

    def _answer(self, kind: bytes, below: str, start: int, count: int) -> bytes:
        store = self.server.store
        try:
            if kind == b"M":
                is_dir, size = store.info(below)
                return struct.pack("<BBQ", 0, is_dir, size)
            if kind == b"L":
                names = [(is_dir, os.fsencode(name)) for is_dir, name in store.names(below)]
                parts = [struct.pack("<BH", is_dir, len(name)) + name for is_dir, name in names]
                return struct.pack("<BI", 0, len(parts)) + b"".join(parts)
            if kind == b"R" and count <= READ_BYTES_MAX:
                return struct.pack("<BI", 0, count) + store.read(below, start, count)
            raise ValueError(f"no question: {kind!r}")
        except FileNotFoundError:
            return b"\1"
        except Exception as why:  # noqa: BLE001 - whatever a store's client raises is for ffwd to say
            text = f"{type(why).__name__}: {why}".encode()[:1000]
            return struct.pack("<BH", 2, len(text)) + text


@contextmanager
def served(url: str, storage: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Reads files of an object store for ffwd: an empty directory that stands for its data directory, and the socket."""
    store = Store(*filesystem(url, storage))
    # The path of a socket is short.
    with tempfile.TemporaryDirectory(prefix="ffwd-", dir="/tmp" if os.path.isdir("/tmp") else None) as top:
        root, path = os.path.join(top, "datadir"), os.path.join(top, "files")
        os.mkdir(root)
        with _Server(path, store) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            thread.start()
            try:
                yield root, path
            finally:
                server.shutdown()
                thread.join()
                store.close()


def upload(top: str, url: str, storage: Mapping[str, Any]) -> None:
    """Puts the files below a directory into an object store, each under its name there; removes each when it is there.

    A file of other blocks that overlap is in the way, as it is for ffwd: FfwdError.
    """
    fs, root = filesystem(url, storage)
    for directory, _, names in os.walk(top):
        below = os.path.relpath(directory, top).replace(os.sep, "/")
        there = _names_in(fs, f"{root}/{below}") if names else []
        for name in sorted(names):
            for other in there:
                if other != name and _overlap(other, name):
                    raise FfwdError(f"{url}/{below}/{other} holds blocks of {name} already: remove it, or export to another target")
            path = os.path.join(directory, name)
            fs.makedirs(f"{root}/{below}", exist_ok=True)
            fs.put_file(path, f"{root}/{below}/{name}")
            os.remove(path)


def _names_in(fs: Any, path: str) -> list[str]:
    # What another task has put there since is not in the list that is kept.
    fs.invalidate_cache()
    try:
        return [str(name).rsplit("/", 1)[-1] for name in fs.ls(path, detail=False)]
    except FileNotFoundError:
        return []


def _overlap(a: str, b: str) -> bool:
    """Whether two files of a table have blocks in common, by their names."""
    spans = []
    for name in (a, b):
        first, _, last = name.removesuffix(".parquet").partition("-")
        if not (name.endswith(".parquet") and first.isdigit() and last.isdigit()):
            return False
        spans.append((int(first), int(last)))
    return spans[0][0] <= spans[1][1] and spans[1][0] <= spans[0][1]

