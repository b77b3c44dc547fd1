"""A LevelDB directory, read with nothing but Python's standard library: the second opinion on what ffwd and Core write.

Everything is in memory, every checksum is checked, nothing is written. Only uncompressed tables, as Core makes them.
Written from the format's description: LevelDB's doc/log_format.md, doc/table_format.md and doc/impl.md.
"""

import pathlib
import struct

FOOTER_BYTES = 48
MAGIC = 0xDB4775248B80FB57
LOG_BLOCK_BYTES = 32 * 1024
PUT = 1


class Damaged(Exception):
    """Something is not as LevelDB writes it."""


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _crc_table()


def _masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class _Reader:
    """Takes pieces off the front of some bytes."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, count):
        piece = self.data[self.at : self.at + count]
        if len(piece) != count:
            raise Damaged(f"{count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return piece

    def number(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def piece(self):
        return self.take(self.number())

    def is_done(self):
        return self.at == len(self.data)


def _log_records(data):
    """The records of a log or manifest; a torn end is no record."""
    at, parts = 0, []
    while True:
        left = LOG_BLOCK_BYTES - at % LOG_BLOCK_BYTES
        if left < 7:
            at += left
            continue
        if at + 7 > len(data):
            return
        crc, length, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0 and length == 0:
            return
        if at + 7 + length > len(data):
            return
        if _masked_crc(data[at + 6 : at + 7 + length]) != crc:
            raise Damaged(f"log record at {at}: checksum")
        parts.append(data[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):
            yield b"".join(parts)
            parts = []


def _block(table, place):
    """Keys and values of one block, from its handle."""
    reader = _Reader(place)
    offset, size = reader.number(), reader.number()
    data = table[offset : offset + size]
    kind, crc = struct.unpack_from("<BI", table, offset + size)
    if kind != 0:
        raise Damaged(f"block at {offset}: compressed")
    if _masked_crc(table[offset : offset + size + 1]) != crc:
        raise Damaged(f"block at {offset}: checksum")
    (restarts,) = struct.unpack_from("<I", data, size - 4)
    reader, key = _Reader(data[: size - 4 - 4 * restarts]), b""
    while not reader.is_done():
        shared, own, value = reader.number(), reader.number(), reader.number()
        key = key[:shared] + reader.take(own)
        yield key, reader.take(value)


class Directory:
    """What a database directory holds, and where."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.levels = {}
        self.log_number = self.last_sequence = 0
        self._read_manifest()
        records = {}
        for tables in self.levels.values():
            for number, (size, first, last) in tables.items():
                self._read_table(number, size, first, last, records)
        for path in sorted(self.path.glob("*.log")):
            if int(path.stem) >= self.log_number:
                self._read_log(path, records)
        # Of each key the record with the greatest sequence counts.
        self.records = {key: value for key, (_, kind, value) in sorted(records.items()) if kind == PUT}
        self.deleted = sorted(key for key, (_, kind, _) in records.items() if kind != PUT)

    def _read_manifest(self):
        current = (self.path / "CURRENT").read_text()
        if not current.endswith("\n"):
            raise Damaged("CURRENT does not end its line")
        for edit in _log_records((self.path / current[:-1]).read_bytes()):
            reader = _Reader(edit)
            while not reader.is_done():
                self._edit(reader)
        for level, tables in self.levels.items():
            runs = sorted((first, last) for _, first, last in tables.values())
            if level > 0 and any(a[1][:-8] >= b[0][:-8] for a, b in zip(runs, runs[1:])):
                raise Damaged(f"tables of level {level} overlap")

    def _edit(self, reader):
        tag = reader.number()
        if tag == 1:
            if reader.piece() != b"leveldb.BytewiseComparator":
                raise Damaged("another order of keys")
        elif tag == 2:
            self.log_number = reader.number()
        elif tag in (3, 9):
            reader.number()
        elif tag == 4:
            self.last_sequence = reader.number()
        elif tag == 5:
            reader.number(), reader.piece()
        elif tag == 6:
            level = reader.number()
            del self.levels[level][reader.number()]
        elif tag == 7:
            level, number = reader.number(), reader.number()
            self.levels.setdefault(level, {})[number] = (reader.number(), reader.piece(), reader.piece())
        else:
            raise Damaged(f"manifest tag {tag}")

    def _read_table(self, number, size, first, last, records):
        table = (self.path / f"{number:06}.ldb").read_bytes()
        if len(table) != size:
            raise Damaged(f"table {number}: {len(table)} bytes, the manifest says {size}")
        footer = table[-FOOTER_BYTES:]
        if struct.unpack("<Q", footer[-8:]) != (MAGIC,):
            raise Damaged(f"table {number}: no table")
        reader = _Reader(footer)
        reader.number(), reader.number()
        index = footer[reader.at :]
        before = None
        for _, place in _block(table, index):
            for key, value in _block(table, place):
                tag = int.from_bytes(key[-8:], "little")
                order = (key[:-8], -tag)
                if before is not None and order <= before:
                    raise Damaged(f"table {number}: keys out of order")
                before = order
                if before and key < first and key[:-8] < first[:-8]:
                    raise Damaged(f"table {number}: a key before its first one")
                self._take(records, key[:-8], tag >> 8, tag & 0xFF, value)
        if before is None or before[0] != last[:-8]:
            raise Damaged(f"table {number}: another last key than the manifest's")

    def _read_log(self, path, records):
        for batch in _log_records(path.read_bytes()):
            sequence, count = struct.unpack_from("<QI", batch)
            reader = _Reader(batch, 12)
            self.last_sequence = max(self.last_sequence, sequence + count - 1)
            for number in range(sequence, sequence + count):
                kind, key = reader.take(1)[0], reader.piece()
                self._take(records, key, number, kind, reader.piece() if kind == PUT else b"")

    def _take(self, records, key, sequence, kind, value):
        if sequence > self.last_sequence:
            raise Damaged(f"sequence {sequence} above the manifest's {self.last_sequence}")
        if key not in records or records[key][0] < sequence:
            records[key] = (sequence, kind, value)

    def overlaps(self):
        """Pairs of levels that hold tables over a common range of keys."""
        spans = {}
        for level, tables in self.levels.items():
            keys = [key[:-8] for _, first, last in tables.values() for key in (first, last)]
            if keys:
                spans[level] = (min(keys), max(keys))
        levels = sorted(spans)
        pairs = [(a, b) for a in levels for b in levels if a < b]
        return [(a, b) for a, b in pairs if spans[a][0] <= spans[b][1] and spans[b][0] <= spans[a][1]]

    def tables(self):
        """How many tables each level has."""
        return {level: len(tables) for level, tables in sorted(self.levels.items()) if tables}
