//! A block from a peer or a foreign file, checked alone and appended to the block files.

use super::DataDir;
use crate::block::{Checked, Refusal};
use crate::fault::Fault;
use crate::tree::NodeId;
use crate::{headers, scratch, stages};
use std::sync::Arc;
use store::blockfiles::BlockAt;

impl DataDir<'_> {
    /// Appends a block to the block files, if it is whole and good as far as it can be alone; gives what checking it gave.
    /// A body that is not is never stored and never marks its header: the reason is returned. What lies behind a block
    /// is not stored. `keep` is given what checking it gave before anybody can see that it is there.
    ///
    /// # Errors
    ///
    /// What the system says. A body that is not taken is no error of the directory: the inner result says why.
    pub(crate) fn store_block(
        &self,
        id: NodeId,
        bytes: &[u8],
        keep: impl FnOnce(Arc<Checked>),
    ) -> Result<Result<(), String>, Fault> {
        let checked = match self.check_body(id, bytes) {
            Ok(checked) => Arc::new(checked),
            Err(why) => return Ok(Err(why)),
        };
        keep(checked.clone());
        let bytes = &bytes[..checked.block_bytes(bytes)];
        let (height, time) = self.height_and_time(id);
        let at = self.writer.append_block(&self.reporter, bytes, height, time)?;
        let size = bytes.len() as u32;
        let mut index = self.index.write();
        index.found(id, BlockAt { file: at.file, offset: u64::from(at.offset), size });
        index.checked(id, checked.txids.len() as u32);
        Ok(Ok(()))
    }

    /// Checks a body as far as that goes without coins.
    fn check_body(&self, id: NodeId, bytes: &[u8]) -> Result<Checked, String> {
        let header = headers::context(&self.headers(), id);
        let checked = scratch::with_check(|scratch| stages::check_arrived(self.params, &header, bytes, scratch));
        checked.map_err(|refusal| match refusal {
            Refusal::Rule(error) => error.to_string(),
            Refusal::Unparsable(why) => format!("{} bytes do not deserialize as a block: {why}", bytes.len()),
            Refusal::WrongBody => "record contains a different block than the index says".to_owned(),
        })
    }
}
