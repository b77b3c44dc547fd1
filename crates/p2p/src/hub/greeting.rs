//! The contents of our `version` message.

use super::context::Context;
use crate::peer::Greeting;
use crate::utxo_sets::scheduled_heights;
use crate::wire::services;

impl Context {
    /// The services that we offer.
    pub(super) fn offered(&self) -> u64 {
        let blocks = if self.chain.has_all_blocks() {
            services::NETWORK | services::NETWORK_LIMITED
        } else {
            services::NETWORK_LIMITED
        };
        let filters = if self.config.compact_filters { services::COMPACT_FILTERS } else { 0 };
        let v2 = if self.config.v2transport { services::P2P_V2 } else { 0 };
        let sets = if self.serves_scheduled_sets() { services::UTXO_SET } else { 0 };
        blocks | services::WITNESS | filters | v2 | sets
    }

    /// Whether the UTXO sets of both scheduled heights are served. Source: BIP-0452, draft 0.5.0.
    fn serves_scheduled_sets(&self) -> bool {
        let Some(source) = &self.config.utxo_sets else { return false };
        let chain = &self.chain;
        let tip = chain.tip();
        let Some(heights) = scheduled_heights(tip.height) else { return false };
        let bases = source.bases();
        heights.iter().all(|height| chain.ancestor(&tip.hash, *height).is_some_and(|base| bases.contains(&base)))
    }

    pub(super) fn greeting(&self) -> Greeting {
        Greeting {
            services: self.offered(),
            agent: format!("/ffwd:{}/", self.config.version),
            height: i32::try_from(self.chain.tip().height.to_u32()).unwrap_or(i32::MAX),
            utxo_sets: self.config.utxo_sets.is_some() || self.config.set_exchange.is_some(),
        }
    }
}
