//! Cached `getaddr` answers: for a day, all peers of one network get the same addresses at one of our sockets.
//!
//! With a new choice for each connection, a spy with thirty connections learned every address, and from the
//! timestamps which of them are connected.
//! Source: Bitcoin Core b88bffe, `CConnman::GetAddresses`, `m_addr_response_caches`.
//!
//! Absent on purpose: which addresses may be shared ([`crate::addresses`]), and the message.

use crate::rng::Rng;
use crate::wire::AddressEntry;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Minimum lifetime of an answer; a random time is added to it. Source: Core.
const KEPT_MIN: Duration = Duration::from_secs(21 * 3600);
const KEPT_MORE_S: usize = 6 * 3600;
/// Maximum number of cached answers: one for each network and socket of ours. A peer that can choose among more of
/// our addresses gets the answer of another socket for its network.
const ANSWER_COUNT_MAX: usize = 64;

/// Key of an answer: the network of the peer (BIP155), and our end of the connection.
pub(crate) type From = (u8, Option<SocketAddr>);

/// The cached answers.
#[derive(Debug, Default)]
pub(crate) struct AddressAnswers {
    kept: BTreeMap<From, Answer>,
}

#[derive(Debug)]
struct Answer {
    until: Duration,
    entries: Vec<AddressEntry>,
}

impl AddressAnswers {
    /// Returns the answer for a peer; `choose` makes a new one if no answer is cached or it has expired. An empty
    /// answer is not cached.
    pub(crate) fn answer(
        &mut self,
        from: From,
        now: Duration,
        rng: &mut Rng,
        choose: impl FnOnce(&mut Rng) -> Vec<AddressEntry>,
    ) -> Vec<AddressEntry> {
        self.kept.retain(|_, answer| answer.until > now);
        if let Some(answer) = self.kept.get(&from) {
            return answer.entries.clone();
        }
        if self.kept.len() >= ANSWER_COUNT_MAX {
            let of_network = self.kept.iter().find(|((network, _), _)| *network == from.0);
            return of_network.map_or_else(Vec::new, |(_, answer)| answer.entries.clone());
        }
        let entries = choose(rng);
        if !entries.is_empty() {
            let more_s = u64::try_from(rng.below(KEPT_MORE_S)).expect("a few hours");
            let until = now + KEPT_MIN + Duration::from_secs(more_s);
            self.kept.insert(from, Answer { until, entries: entries.clone() });
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{NetAddress, PeerAddress};

    const HOUR: Duration = Duration::from_secs(3600);

    fn entries(number: u8) -> Vec<AddressEntry> {
        let peer = PeerAddress { address: NetAddress::V4([number, 1, 1, 1]), port: 8333 };
        vec![AddressEntry { peer, services: 9, time: 1 }]
    }

    #[test]
    fn answers_are_kept_for_about_a_day_by_network_and_socket() {
        let (mut answers, mut rng) = (AddressAnswers::default(), Rng::Seeded(1));
        let here: SocketAddr = "127.0.0.1:8333".parse().unwrap();
        let there: SocketAddr = "192.168.1.2:8333".parse().unwrap();
        let mut number = 0;
        let mut asked = |from: From, at: Duration| {
            let told = answers.answer(from, at, &mut rng, |_| {
                number += 1;
                entries(number)
            });
            told[0].peer.address.bytes()[0]
        };
        assert_eq!((asked((1, Some(here)), HOUR), asked((1, Some(here)), 22 * HOUR)), (1, 1), "the same");
        assert_eq!(asked((1, Some(there)), HOUR), 2, "another socket");
        assert_eq!(asked((4, Some(here)), HOUR), 3, "another network");
        assert_eq!(asked((1, Some(here)), 28 * HOUR + HOUR), 4, "after 27 hours at the latest");
    }

    #[test]
    fn answers_have_a_bound_and_empty_ones_are_not_kept() {
        let (mut answers, mut rng) = (AddressAnswers::default(), Rng::Seeded(1));
        assert_eq!(answers.answer((1, None), HOUR, &mut rng, |_| Vec::new()), []);
        assert_eq!(answers.answer((1, None), HOUR, &mut rng, |_| entries(7)), entries(7));
        for port in 1..1000 {
            let from = (2, Some(SocketAddr::from(([9, 9, 9, 9], port))));
            answers.answer(from, HOUR, &mut rng, |_| entries(u8::try_from(port % 200).unwrap()));
        }
        assert_eq!(answers.kept.len(), ANSWER_COUNT_MAX);
        let another = (2, Some(SocketAddr::from(([9, 9, 9, 9], 5000))));
        assert_eq!(answers.answer(another, HOUR, &mut rng, |_| entries(222)), entries(1), "what its network is told");
    }
}
