"""Reads, rebuilds, verifies and downloads the data directories of Bitcoin Core."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Literal, final

__all__ = [
    "ArrowTable",
    "Coins",
    "DataDir",
    "Error",
    "Event",
    "JobReport",
    "ScriptError",
    "VerifyReport",
    "script_type",
    "verify_script",
]

_Network = Literal["main", "test", "testnet4", "signet", "regtest"]
_Index = Literal["txindex", "blockfilterindex", "coinstatsindex", "txospenderindex", "silentpaymentindex"]

class Error(Exception):
    """Why a call failed: what happened, to which file, and what to do."""

    kind: str
    """What sort of failure: "missing", "permission", "no_space", "io", "in_use", "damaged", "other_format", "other_network", "refused", "needs_reindex", "stopped" or "internal"."""
    path: str | None
    """The file or directory that it is about."""
    errno: int | None
    """The number of the system's error behind it."""

class ScriptError(ValueError):
    """Why verify_script says no."""

    name: str | None
    """Core's name of the reason, such as "EVAL_FALSE"; None where the arguments do not fit each other."""

@final
class Event:
    """What a job tells while it works."""

    @property
    def kind(self) -> str:
        """ "note", "warning", "block_refused", "ready", "tip" or "progress"."""
    @property
    def text(self) -> str | None:
        """A line for people: of "progress" what the job does or waits for, of "block_refused" the reason."""
    @property
    def height(self) -> int | None:
        """Height of the block, or of the last connected one."""
    @property
    def height_end(self) -> int | None:
        """Of "progress": the height at which the job ends, as far as it is known."""
    @property
    def hash(self) -> str | None:
        """Hash of the block, of "tip" and "block_refused"."""
    @property
    def bytes(self) -> int | None:
        """Of "progress": bytes of blocks that are done."""
    @property
    def bytes_end(self) -> int | None:
        """Of "progress": bytes of blocks that there are."""

@final
class JobReport:
    """What a reindex or a sync did."""

    @property
    def ended(self) -> str:
        """ "complete", or "incomplete": the chain ends below the best one that is known."""
    @property
    def reason(self) -> str | None:
        """Why it is incomplete, and what to do."""
    @property
    def height(self) -> int:
        """Height of the last block that is connected and durable."""
    @property
    def best_block(self) -> str:
        """Its hash."""
    @property
    def height_start(self) -> int:
        """Height at which the work was taken up."""
    @property
    def blocks(self) -> int:
        """Blocks that were connected."""
    @property
    def transactions(self) -> int:
        """Transactions of them."""
    @property
    def bytes(self) -> int:
        """Bytes of them."""
    @property
    def blocks_invalid(self) -> int:
        """Blocks that were refused because they break a rule."""
    @property
    def seconds(self) -> float:
        """Seconds that it took."""

@final
class VerifyReport:
    """What was verified."""

    @property
    def blocks(self) -> int:
        """Blocks, from the tip down."""
    @property
    def level(self) -> int:
        """Level of the checks."""
    @property
    def transactions(self) -> int:
        """Transactions of these blocks."""
    @property
    def height(self) -> int:
        """Height of the tip."""
    @property
    def best_block(self) -> str:
        """Its hash."""
    @property
    def seconds(self) -> float:
        """Seconds that it took."""

@final
class ArrowTable:
    """Rows that are made when they are read: what pandas, Polars, pyarrow and DuckDB read as Arrow."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Coins:
    """The UTXO set at one block, as it stood when it was opened. It is Arrow itself: a row for each coin."""

    @property
    def height(self) -> int:
        """Height of the block that the set stands at."""
    @property
    def best_block(self) -> str:
        """Hash of that block."""
    @property
    def hash_serialized_3(self) -> str:
        """Core's hash of the set. Reads all of it."""
    @property
    def muhash(self) -> str:
        """Core's MuHash of the set. Reads all of it."""
    def info(self) -> dict[str, int]:
        """What the set adds up to, by the names of gettxoutsetinfo: txouts, transactions, bogosize, total_amount (satoshi), disk_size."""
    def get(self, txid: str, vout: int) -> dict[str, int | bool | bytes | str] | None:
        """A coin: value (satoshi), script, type, height, is_coinbase; None where it is not in the set."""
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class DataDir:
    """A data directory of Bitcoin Core. It holds no lock and no open file; any thread may use it."""

    @staticmethod
    def open(
        path: str | PathLike[str],
        network: _Network = "main",
        *,
        blocks_dir: str | PathLike[str] | None = None,
        signet_challenge: bytes | None = None,
        threads: int | None = None,
    ) -> DataDir:
        """The data directory at a path: Core's -datadir. It must be there and may be empty."""
    @property
    def path(self) -> str:
        """Its path."""
    @property
    def network(self) -> _Network:
        """Its network."""
    def reindex(
        self,
        *,
        coins_only: bool = False,
        verify_all_scripts: bool = False,
        assume_valid: str | None = None,
        stop_at_height: int | None = None,
        prune_to: int | None = None,
        indexes: Sequence[_Index] = (),
        cache_bytes: int | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> JobReport:
        """Rebuilds block index, undo files and UTXO set from the block files: Core's -reindex."""
    def sync(
        self,
        *,
        connect: Sequence[str] | None = None,
        add_nodes: Sequence[str] = (),
        proxy: str | None = None,
        dns_seeds: bool = True,
        follow: bool = False,
        snapshot: str | PathLike[str] | None = None,
        verify_all_scripts: bool = False,
        assume_valid: str | None = None,
        stop_at_height: int | None = None,
        prune_to: int | None = None,
        indexes: Sequence[_Index] = (),
        cache_bytes: int | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> JobReport:
        """Downloads blocks from peers and connects them, to the tip that the peers have; follow: until it is interrupted."""
    def verify(
        self,
        *,
        level: int = 3,
        blocks: int | None = 6,
        verify_all_scripts: bool = False,
        cache_bytes: int | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> VerifyReport:
        """Checks the last blocks of the chain, as Core's verifychain; blocks=None: all of them."""
    def blocks(self, start: int = 0, stop: int | None = None) -> ArrowTable:
        """A row for each block of heights start to stop - 1; without stop to the tip."""
    def transactions(self, start: int = 0, stop: int | None = None) -> ArrowTable:
        """A row for each transaction of these blocks, with its fee."""
    def inputs(self, start: int = 0, stop: int | None = None) -> ArrowTable:
        """A row for each input of these blocks but those of coinbases, with the coin that it spends."""
    def outputs(self, start: int = 0, stop: int | None = None) -> ArrowTable:
        """A row for each output of these blocks."""
    def coins(self) -> Coins:
        """The UTXO set as it stands."""

def verify_script(tx: bytes, input: int, spent: Sequence[tuple[int, bytes]], flags: str = "CONSENSUS") -> None:
    """Checks that the scripts of an input accept it: Core's VerifyScript. Raises ScriptError where they do not.

    spent: amount (satoshi) and script of the outputs that the transaction's inputs spend, one for each input.
    flags: names of Core's SCRIPT_VERIFY flags with commas between: "P2SH,WITNESS"; "CONSENSUS" for all rules of today's blocks.
    """

def script_type(script: bytes) -> str:
    """What a script is, by the names of Core's RPCs: "witness_v1_taproot"."""
