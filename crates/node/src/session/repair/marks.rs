//! Checks invalid marks that exclude a better chain: the marked blocks are validated again.
//!
//! `doctor` reports such a mark if the block index has the headers of the better chain. If the index lacks them, this
//! step gets them from `--from` and peers.

use super::blocks::Opened;
use super::{Repair, Step, step_of};
use crate::chain::tree::{Fate, NodeId};
use crate::datadir::refused::RefusedFile;
use crate::fault::Fault;
use crate::offline;
use crate::offline::common::engine;
use crate::offline::doctor::{Examination, Kind};
use crate::offline::open::{Purpose, Which, open_existing};
use primitives::BlockHash;
use store::private_files::PrivateDir;

impl Repair<'_> {
    /// Validates the marked blocks that exclude a better chain again.
    pub(super) fn marks(&mut self, found: &Examination) -> Result<(), Fault> {
        let hashes: Vec<BlockHash> = found
            .findings
            .iter()
            .filter(|finding| step_of(finding.kind) == Some(Step::Marks))
            .filter_map(|finding| finding.hash)
            .collect();
        let existing = open_existing(self.options, self.events, "repair", Purpose::Work, Which::Active)?;
        let datadir = &existing.datadir;
        let nodes: Vec<NodeId> = hashes.iter().filter_map(|hash| datadir.headers().find(hash)).collect();
        datadir.open_indexes(datadir.kept_indexes(), existing.tip)?;
        nodes.iter().for_each(|&node| datadir.index.write().reconsider(node));
        let mut engine = engine(datadir, existing.tip);
        engine.activate()?;
        offline::finish(datadir, &mut engine)?;
        let tree_says = |node: NodeId| datadir.headers().fate(node) == Fate::Open;
        let good = nodes.iter().filter(|&&node| tree_says(node)).count();
        self.judged.extend(hashes.iter().zip(&nodes).filter(|&(_, &node)| !tree_says(node)).map(|(hash, _)| *hash));
        let tip = engine.tip();
        let best = datadir.headers().best();
        let is_behind = datadir.headers().work(best) > datadir.headers().work(tip);
        drop(engine);
        drop(existing);
        let may_have_more = found.findings.iter().any(|finding| finding.kind == Kind::MarkedLater);
        self.wants_sync |= is_behind || (may_have_more && good > 0 && !self.is_alone());
        self.done(match good {
            0 => "The marked block was judged again: it is invalid, and the mark stays".to_owned(),
            _ => "The marked block was judged again: it is valid, and the mark was removed".to_owned(),
        });
        Ok(())
    }

    /// Removes a mark that excludes a better chain whose headers the index lacked.
    pub(super) fn marks_below_unknown_headers(&mut self) -> Result<(), Fault> {
        if self.is_alone() {
            return Ok(());
        }
        let Some(mark) = self.mark_below_unknown_headers()? else { return Ok(()) };
        let existing = open_existing(self.options, self.events, "repair", Purpose::Work, Which::Active)?;
        let datadir = &existing.datadir;
        let Some(node) = datadir.headers().find(&mark) else { return Ok(()) };
        let height = datadir.headers().height(node);
        datadir.index.write().reconsider(node);
        datadir.write_index(None)?;
        drop(existing);
        self.wants_sync = true;
        self.done(format!(
            "The mark on block {mark} at height {height} was removed: there is a chain on it with more work. Its blocks are fetched \
             and judged"
        ));
        Ok(())
    }

    /// The lowest mark on the chain with the most work, if that has more work than the connected chain.
    fn mark_below_unknown_headers(&self) -> Result<Option<BlockHash>, Fault> {
        // The changes made here are not written to disk.
        let opened = Opened::new(self.options, self.events)?;
        let own = PrivateDir::new(opened.locked.disk.clone(), opened.locked.layout.private_dir());
        RefusedFile::new(own).load(&opened.index);
        let marked: Vec<NodeId> = {
            let index = opened.index.read();
            let tree = index.headers();
            let is_lowest = |&id: &NodeId| {
                tree.fate(id) != Fate::Open && tree.parent(id).is_none_or(|parent| tree.fate(parent) == Fate::Open)
            };
            tree.ids().filter(is_lowest).filter(|id| !index.refused().contains(id)).collect()
        };
        let is_judged = |&id: &NodeId| self.judged.contains(&opened.index.headers().hash(id));
        let marked: Vec<NodeId> = marked.into_iter().filter(|id| !is_judged(id)).collect();
        if marked.is_empty() {
            return Ok(None);
        }
        marked.iter().for_each(|&id| opened.index.write().reconsider(id));
        opened.headers_from_files(self.sync)?;
        opened.headers_from_peers(self.sync, &|_| false)?;
        let index = opened.index.read();
        let tree = index.headers();
        if tree.work(tree.best()) <= tree.work(index.tip()) {
            return Ok(None);
        }
        Ok(marked.into_iter().find(|&id| tree.is_ancestor(id, tree.best())).map(|id| tree.hash(id)))
    }
}
