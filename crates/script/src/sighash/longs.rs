//! Long messages of signatures before segwit, kept from an input's first run to its verdict: hashed many at a time, and
//! never twice.
//!
//! If a script checks many signatures, each over a different part of the script, the whole transaction is hashed for
//! each of them. While scripts run on the assumption that every check holds, nothing needs the hashes: the messages are
//! collected ([`Longs::sighash`]), and hashed in lanes ([`Longs::settle`]). An input that must run again finds its
//! hashes here.
//!
//! Absent on purpose: short messages ([`super::Ahead`]); messages after segwit, none of which contains a transaction.

use super::legacy::Long;
use super::{Code, Precomputed, legacy};
use kernels::Kernels;
use kernels::sha256::Pieces;

/// Placeholder for a hash that is computed later.
pub(crate) const LATER: [u8; 32] = [0; 32];

/// Number of the latest messages of an input that are compared with a new one: as many as Core keeps (`SigHashCache`).
/// A repeated message before these is hashed again.
const COMPARED_MAX: usize = 6;

/// The treatment of a message that was not seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mode {
    /// The caller computes its hash immediately, and it is kept.
    #[default]
    Now,
    /// Its hash is computed later, with those of other messages.
    Later,
    /// It is not kept, because the input runs again, and does not run a third time.
    Again,
}

/// The hash of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    /// This.
    Known([u8; 32]),
    /// Computed later, for the check that is recorded next.
    Later,
    /// Unknown; to be stored at this position, if there is one.
    Unknown(Option<usize>),
}

/// Whether a script needs a hash immediately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// The check is decided immediately.
    Now,
    /// The check is recorded.
    Recorded,
}

/// The messages of some inputs, in their order.
#[derive(Debug, Default)]
pub struct Longs {
    bytes: Vec<u8>,
    messages: Vec<Kept>,
    /// Positions of checks, and of the messages whose hashes they need.
    uses: Vec<(usize, usize)>,
    /// The message of the check that is recorded next.
    asked: Option<usize>,
    mode: Mode,
    /// The current input: its number, the position of its first message, and of the message that is expected next.
    owner: usize,
    first: usize,
    next: usize,
    /// Bytes of the messages that wait for their hash.
    waiting_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    owner: usize,
    long: Long,
    hash: Option<[u8; 32]>,
}

impl Longs {
    /// Removes all messages, keeps the memory. `later`: whether new ones are hashed many at a time.
    pub(crate) fn clear(&mut self, later: bool) {
        self.bytes.clear();
        self.messages.clear();
        self.uses.clear();
        self.asked = None;
        self.mode = if later { Mode::Later } else { Mode::Now };
        self.waiting_bytes = 0;
    }

    /// Begins the messages of an input, number `owner`.
    pub(crate) fn begin(&mut self, owner: usize) {
        (self.owner, self.first, self.asked) = (owner, self.messages.len(), None);
    }

    /// Whether the current input has messages.
    pub(crate) fn has_some(&self) -> bool {
        self.messages.len() > self.first
    }

    /// Begins the second run of an input: messages are found, and not kept.
    pub(crate) fn begin_again(&mut self, owner: usize) {
        self.mode = Mode::Again;
        self.owner = owner;
        self.first = self.messages.partition_point(|kept| kept.owner < owner);
        self.next = self.first;
    }

    /// Bytes of the messages that will be hashed.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Bytes of memory that the messages use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The hash of a message, see [`super::legacy()`]; [`LATER`] if it is computed later for the check that is recorded
    /// next. `compute` computes a hash that is needed now and not known.
    pub(crate) fn sighash(
        &mut self,
        tx: &Precomputed<'_>,
        input: usize,
        script_code: Code<'_>,
        hash_type: u8,
        need: Need,
        compute: impl FnOnce() -> [u8; 32],
    ) -> [u8; 32] {
        match self.ask(tx, input, script_code, u32::from(hash_type), need) {
            Asked::Known(hash) => hash,
            Asked::Later => LATER,
            Asked::Unknown(place) => {
                let hash = compute();
                if let Some(place) = place {
                    self.messages[place].hash = Some(hash);
                }
                hash
            }
        }
    }

    fn ask(&mut self, tx: &Precomputed<'_>, input: usize, script_code: Code<'_>, hash_type: u32, need: Need) -> Asked {
        let before = self.bytes.len();
        let Some(long) = Long::put(&mut self.bytes, tx, input, script_code, hash_type) else {
            return Asked::Known(legacy::SINGLE_WITHOUT_OUTPUT);
        };
        let found = self.find(&long);
        if let Some(at) = found {
            self.bytes.truncate(before);
            self.next = at + 1;
            return match (self.messages[at].hash, need) {
                (Some(hash), _) => Asked::Known(hash),
                (None, Need::Now) => Asked::Unknown(Some(at)),
                (None, Need::Recorded) => {
                    self.asked = Some(at);
                    Asked::Later
                }
            };
        }
        if self.mode == Mode::Again {
            self.bytes.truncate(before);
            return Asked::Unknown(None);
        }
        let at = self.messages.len();
        // Messages that differ only in their hash type share a state, which the caller keeps.
        let is_later = self.mode == Mode::Later && need == Need::Recorded && !self.has_alike(&long);
        if is_later {
            self.waiting_bytes += long.hashed_bytes();
            self.asked = Some(at);
        }
        self.messages.push(Kept { owner: self.owner, long, hash: None });
        if is_later { Asked::Later } else { Asked::Unknown(Some(at)) }
    }

    /// A check was recorded at this position: it gets the hash that was requested last.
    #[inline]
    pub(crate) fn recorded(&mut self, check: usize) {
        if let Some(message) = self.asked.take() {
            self.uses.push((check, message));
        }
    }

    /// The checks from this position on were removed.
    pub(crate) fn removed(&mut self, first_check: usize) {
        self.asked = None;
        let kept = self.uses.iter().rposition(|(check, _)| *check < first_check).map_or(0, |last| last + 1);
        self.uses.truncate(kept);
    }

    /// The position of the same message of this input: the expected one, or one of the last.
    fn find(&self, long: &Long) -> Option<usize> {
        let end = self.messages.len();
        let range = match self.mode {
            Mode::Again => self.next..(self.next + COMPARED_MAX).min(end),
            Mode::Now | Mode::Later => self.first.max(end.saturating_sub(COMPARED_MAX))..end,
        };
        let is_same = |at: &usize| {
            let kept = &self.messages[*at];
            kept.owner == self.owner
                && kept.long.hash_type == long.hash_type
                && self.bytes[kept.long.first.clone()] == self.bytes[long.first.clone()]
                && self.bytes[kept.long.last.clone()] == self.bytes[long.last.clone()]
        };
        match self.mode {
            Mode::Again => {
                range.clone().find(is_same).or_else(|| (self.first..range.start).rev().take(COMPARED_MAX).find(is_same))
            }
            Mode::Now | Mode::Later => range.rev().find(is_same),
        }
    }

    /// Whether one of this input's last messages has the same script code and another hash type.
    fn has_alike(&self, long: &Long) -> bool {
        let last = self.messages[self.first..].iter().rev().take(COMPARED_MAX);
        last.into_iter().any(|kept| {
            kept.long.hash_type != long.hash_type
                && self.bytes[kept.long.first.clone()] == self.bytes[long.first.clone()]
        })
    }

    /// Computes the pending hashes. `tx_of` has the transaction of each input.
    pub(crate) fn settle<'t>(&mut self, kernels: Kernels, tx_of: impl Fn(usize) -> &'t Precomputed<'t>) {
        let waiting: Vec<usize> = (0..self.messages.len()).filter(|&at| self.messages[at].hash.is_none()).collect();
        let whole = waiting.iter().map(|&at| {
            let Kept { owner, long, .. } = &self.messages[at];
            long.pieces(tx_of(*owner), &self.bytes)
        });
        let (starts, messages): (Vec<_>, Vec<Pieces<'_>>) = whole.unzip();
        let mut hashes = vec![[0; 32]; messages.len()];
        kernels.sha256d_after(&starts, &messages, &mut hashes);
        for (at, hash) in waiting.into_iter().zip(hashes) {
            self.messages[at].hash = Some(hash);
        }
        self.waiting_bytes = 0;
    }

    /// Positions of checks, and the hashes that they wait for. Call after [`Longs::settle`].
    pub(crate) fn settled(&self) -> impl Iterator<Item = (usize, [u8; 32])> {
        let hash = |message: usize| self.messages[message].hash.expect("all are computed");
        self.uses.iter().map(move |&(check, message)| (check, hash(message)))
    }
}
