//! What is wrong with the chain as a whole, while it is: rules that ffwd does not know, a longer chain that is invalid.
//!
//! Source: Bitcoin Core b88bffe, kernel/warning.h, node/warnings.cpp.
//! Absent on purpose: who is told (`reporter`), and when it is looked for (`datadir::alerts`).

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
    /// A chain with more work than the active one is shut out by a mark.
    ChainShutOut,
    /// A chain with more work begins below the pruned blocks.
    PrunedFork,
    /// The assumed-valid block is not on the best header chain.
    AssumedElsewhere,
    /// The chain is above `--stopatheight`.
    AboveStopHeight,
    /// The state of the session is one that a person may mend.
    State,
}

/// Alerts that hold.
#[derive(Debug, Default)]
pub struct Alerts(Mutex<BTreeMap<AlertKind, String>>);

impl Alerts {
    /// The texts of those that hold.
    pub fn texts(&self) -> Vec<String> {
        lock(&self.0).values().cloned().collect()
    }

    /// The texts of those that are about the chain, and not about what the session waits for at the moment.
    pub fn of_chain(&self) -> Vec<String> {
        let is_of_chain = |(kind, _): &(&AlertKind, &String)| **kind != AlertKind::State;
        lock(&self.0).iter().filter(is_of_chain).map(|(_, text)| text.clone()).collect()
    }

    /// Sets or ends one; says whether it is new.
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
