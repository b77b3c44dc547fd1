//! Alerts: problems of the chain as a whole, as long as they exist: rules unknown to ffwd, a longer chain that is
//! invalid.
//!
//! Source: Bitcoin Core b88bffe, kernel/warning.h, node/warnings.cpp. Absent on purpose: reporting them (`reporter`),
//! and detecting them (`datadir::alerts`).

use crate::threads::locks::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Kinds of alerts, in Core's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AlertKind {
    /// Miners activated rules that ffwd does not check.
    UnknownRules,
    /// A chain with much more work than the active one is invalid.
    InvalidChain,
    /// A mark for an invalid block excludes a chain with more work than the active one.
    ChainShutOut,
    /// A chain with more work begins below the pruned blocks.
    PrunedFork,
    /// The assumed-valid block is not on the best header chain.
    AssumedElsewhere,
    /// The chain is above `--stopatheight`.
    AboveStopHeight,
    /// The state of the session is one that the user can fix.
    State,
}

/// Active alerts.
#[derive(Debug, Default)]
pub struct Alerts(Mutex<BTreeMap<AlertKind, String>>);

impl Alerts {
    /// The texts of active alerts.
    pub fn texts(&self) -> Vec<String> {
        lock(&self.0).values().cloned().collect()
    }

    /// The texts of active alerts about the chain, without those about the current state of the session.
    pub fn of_chain(&self) -> Vec<String> {
        let is_of_chain = |(kind, _): &(&AlertKind, &String)| **kind != AlertKind::State;
        lock(&self.0).iter().filter(is_of_chain).map(|(_, text)| text.clone()).collect()
    }

    /// Sets or ends an alert; returns whether it is new.
    pub(crate) fn set(&self, kind: AlertKind, text: Option<&str>) -> bool {
        let mut alerts = lock(&self.0);
        match text {
            Some(text) => alerts.insert(kind, text.to_owned()).is_none(),
            None => {
                alerts.remove(&kind);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_new_once_while_they_hold() {
        let alerts = Alerts::default();
        assert!(alerts.set(AlertKind::InvalidChain, Some("b")));
        assert!(!alerts.set(AlertKind::InvalidChain, Some("b")));
        assert!(alerts.set(AlertKind::UnknownRules, Some("a")));
        assert_eq!(alerts.texts(), ["a", "b"]);
        alerts.set(AlertKind::State, Some("no peer"));
        assert_eq!((alerts.texts().len(), alerts.of_chain()), (3, vec!["a".to_owned(), "b".to_owned()]));
        alerts.set(AlertKind::State, None);
        assert!(!alerts.set(AlertKind::InvalidChain, None));
        assert_eq!(alerts.texts(), ["a"]);
        assert!(alerts.set(AlertKind::InvalidChain, Some("b")), "it holds again");
    }
}
