//! Messages that do not parse: which are dropped, and why the others end the connection.

use crate::reason::Reason;
use crate::wire::{Command, ParseError};

/// Why the connection ends after a message that does not parse.
pub(super) fn of_unparsed(command: Command, why: &ParseError) -> Reason {
    match (command, why) {
        // No offence: Core ends the connection, and does not discourage the address.
        (Command::GetHeaders | Command::GetBlocks, ParseError::Count { have, .. }) => {
            Reason::LongLocator { command: command.name(), count: *have }
        }
        _ => Reason::BadMessage { command: command.name(), why: why.to_string() },
    }
}

/// Whether a message that does not parse is dropped, as Core drops all of them: true for addresses, for which no
/// request waits. Any other such message may be a corrupted answer, which a new connection replaces sooner than a
/// timeout.
pub(super) fn is_dropped(command: Command, why: &ParseError) -> bool {
    matches!(command, Command::Addr | Command::AddrV2) && !matches!(why, ParseError::Count { .. })
}
