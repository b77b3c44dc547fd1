//! Token bucket that limits how many addresses of a peer are processed.
//!
//! Source: Bitcoin Core b88bffe, `MAX_ADDR_RATE_PER_SECOND` (0.1), `MAX_ADDR_PROCESSING_TOKEN_BUCKET` (1000).

use std::time::Duration;

const ADDRESS_RATE_PER_S: f64 = 0.1;
/// Capacity of the bucket, and the tokens that a `getaddr` request adds.
pub(crate) const ADDRESS_TOKENS_MAX: f64 = 1000.0;

/// The token bucket: one token for each address.
#[derive(Debug)]
pub(crate) struct AddressBucket {
    tokens: f64,
    filled_at: Duration,
}

impl AddressBucket {
    /// The bucket of a new connection.
    pub(crate) fn new(now: Duration) -> AddressBucket {
        AddressBucket { tokens: 1.0, filled_at: now }
    }

    /// Adds tokens.
    pub(crate) fn add(&mut self, tokens: f64) {
        self.tokens += tokens;
    }

    /// How many of `count` addresses may be processed now.
    pub(crate) fn take(&mut self, count: usize, now: Duration) -> usize {
        if self.tokens < ADDRESS_TOKENS_MAX {
            let since = now.saturating_sub(self.filled_at).as_secs_f64();
            self.tokens = (self.tokens + since * ADDRESS_RATE_PER_S).min(ADDRESS_TOKENS_MAX);
        }
        self.filled_at = now;
        let taken = count.min(self.tokens as usize);
        self.tokens -= taken as f64;
        taken
    }
}
