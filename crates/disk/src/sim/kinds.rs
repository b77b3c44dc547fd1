//! Unusual file systems: how the simulated disk behaves as one of them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::Kind;
use super::state::{Node, SimState, names};

impl SimState {
    /// Adds this kind to the disk's kinds.
    pub(super) fn be(&mut self, kind: Kind) {
        self.kinds.insert(kind);
        if kind == Kind::Overlay {
            let is_dir = |(inode, node): (usize, &Node)| matches!(node, Node::Dir(_)).then_some(inode);
            self.lower = self.nodes.iter().enumerate().filter_map(is_dir).collect();
        }
    }

    pub(super) fn is(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// The mount that contains a name: the last mount point on its path.
    fn mount_of(&self, path: &Path) -> io::Result<usize> {
        let mut inode = 0;
        let mut mount = 0;
        let names = names(path)?;
        for name in &names[..names.len().saturating_sub(1)] {
            inode = *self.dir(inode)?.now.get(*name).ok_or(io::ErrorKind::NotFound)?;
            if self.mounts.contains(&inode) {
                mount = inode;
            }
        }
        Ok(mount)
    }

    /// Whether names can be moved between these places: mount points cannot be moved, and nothing can leave its file
    /// system.
    pub(super) fn check_move(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inodes = [self.find(from).ok(), self.find(to).ok()];
        if inodes.iter().flatten().any(|inode| self.mounts.contains(inode)) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let is_lower = |inode: &usize| self.lower.contains(inode);
        if self.mount_of(from)? != self.mount_of(to)? || inodes.iter().flatten().any(is_lower) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        Ok(())
    }

    /// The new name of a file that is open when its name is removed; `None` if the name is simply removed.
    pub(super) fn name_while_open(&self, inode: usize, name: &OsStr) -> io::Result<Option<OsString>> {
        if self.open.get(&inode).is_none_or(|count| *count == 0) {
            return Ok(None);
        }
        if self.is(Kind::NfsNames) {
            if name.as_encoded_bytes().starts_with(b".nfs") {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            return Ok(Some(format!(".nfs{inode:024x}").into()));
        }
        Ok(self.is(Kind::FuseNames).then(|| format!(".fuse_hidden{inode:016x}").into()))
    }

    pub(super) fn opened(&mut self, inode: usize) {
        *self.open.entry(inode).or_insert(0) += 1;
    }

    /// Called when the last holder closes a file: removes the name that it had only for that time.
    pub(super) fn closed(&mut self, inode: usize) {
        let Some(count) = self.open.get_mut(&inode) else { return };
        *count -= 1;
        if *count > 0 || !(self.is(Kind::FuseNames) || self.is(Kind::NfsNames)) {
            return;
        }
        let is_hidden = |name: &OsString, of: usize| of == inode && crate::is_still_open(name);
        let place = self.nodes.iter().enumerate().find_map(|(dir, node)| match node {
            Node::Dir(known) => {
                known.now.iter().find(|(name, of)| is_hidden(name, **of)).map(|(name, _)| (dir, name.clone()))
            }
            Node::File(_) => None,
        });
        if let Some((dir, name)) = place.filter(|_| !self.is_stopped) {
            self.set_names(vec![(dir, name, None)]);
        }
    }
}
