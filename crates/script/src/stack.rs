//! A script's stack. Its elements are immutable.
//!
//! An element is either a borrowed part of the script, scriptSig or witness, or a computed hash or number of at most 32
//! bytes, stored inline. So elements never allocate.

use crate::error::ScriptError;

/// Maximum number of elements of stack and altstack together, after each operation. Source: Bitcoin Core b88bffe,
/// `MAX_STACK_SIZE`.
pub(crate) const STACK_SIZE_MAX: usize = 1000;
/// Bytes of an element. Source: Bitcoin Core b88bffe, `MAX_SCRIPT_ELEMENT_SIZE`.
pub(crate) const ELEMENT_BYTES_MAX: usize = 520;

/// One element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Element<'a> {
    /// Bytes that a script or a witness pushed, and constants.
    Pushed(&'a [u8]),
    /// A result: its bytes, and their number.
    Computed([u8; 32], u8),
}

impl<'a> Element<'a> {
    /// A result of at most 32 bytes.
    #[inline]
    pub(crate) fn computed(bytes: &[u8]) -> Element<'a> {
        let mut held = [0; 32];
        held[..bytes.len()].copy_from_slice(bytes);
        Element::Computed(held, bytes.len() as u8)
    }

    /// The elements for true and false. Source: Bitcoin Core b88bffe, `vchTrue`, `vchFalse`.
    #[inline]
    pub(crate) fn boolean(value: bool) -> Element<'a> {
        Element::Pushed(if value { &[1] } else { &[] })
    }

    /// The bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Element::Pushed(bytes) => bytes,
            Element::Computed(bytes, used) => &bytes[..usize::from(*used)],
        }
    }

    /// Whether the element is true, see [`is_true`].
    #[inline]
    pub(crate) fn is_true(&self) -> bool {
        is_true(self.bytes())
    }
}

/// An element is false if it is empty, or all zeros except that the last byte may be 80. Source: Bitcoin Core b88bffe,
/// `CastToBool`.
#[inline]
pub(crate) fn is_true(bytes: &[u8]) -> bool {
    match bytes.split_last() {
        None => false,
        Some((&last, rest)) => !matches!(last, 0 | 0x80) || rest.iter().any(|&byte| byte != 0),
    }
}

/// The stack of one script.
#[derive(Debug, Default)]
pub(crate) struct Stack<'a>(Vec<Element<'a>>);

/// Every method with too few elements returns [`ScriptError::InvalidStackOperation`] and changes nothing.
impl<'a> Stack<'a> {
    /// An empty stack in the memory of another one. The standard library keeps the memory; if it did not, this would
    /// only be slower.
    pub(crate) fn recycled(old: Stack<'_>) -> Stack<'a> {
        let mut old = old.0;
        old.clear();
        Stack(old.into_iter().map(|_| Element::Pushed(&[])).collect())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, element: Element<'a>) {
        self.0.push(element);
    }

    /// Pushes items of a witness, bottom first.
    pub(crate) fn extend(&mut self, items: impl Iterator<Item = &'a [u8]>) {
        self.0.extend(items.map(Element::Pushed));
    }

    /// All elements, bottom first.
    pub(crate) fn elements(&self) -> &[Element<'a>] {
        &self.0
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Element<'a>, ScriptError> {
        self.0.pop().ok_or(ScriptError::InvalidStackOperation)
    }

    /// Fails if there are fewer than `count` elements.
    #[inline]
    pub(crate) fn need(&self, count: usize) -> Result<(), ScriptError> {
        if self.0.len() < count { Err(ScriptError::InvalidStackOperation) } else { Ok(()) }
    }

    /// The element `depth` places below the top; 0 is the top.
    #[inline]
    pub(crate) fn peek(&self, depth: usize) -> Result<&Element<'a>, ScriptError> {
        let index = self.0.len().checked_sub(depth + 1).ok_or(ScriptError::InvalidStackOperation)?;
        Ok(&self.0[index])
    }

    /// Drops the top `count` elements.
    #[inline]
    pub(crate) fn drop(&mut self, count: usize) -> Result<(), ScriptError> {
        self.need(count)?;
        self.0.truncate(self.0.len() - count);
        Ok(())
    }

    /// Pushes copies of the `count` elements that start `depth` places below the top, in their order.
    #[inline]
    pub(crate) fn copy(&mut self, depth: usize, count: usize) -> Result<(), ScriptError> {
        self.need(depth + 1)?;
        let start = self.0.len() - (depth + 1);
        self.0.extend_from_within(start..start + count);
        Ok(())
    }

    /// Rotates the top `count` elements so that the lowest `by` of them are on top.
    #[inline]
    pub(crate) fn rotate(&mut self, count: usize, by: usize) -> Result<(), ScriptError> {
        self.need(count)?;
        let start = self.0.len() - count;
        self.0[start..].rotate_left(by);
        Ok(())
    }

    /// Removes the element `depth` places below the top.
    #[inline]
    pub(crate) fn remove(&mut self, depth: usize) -> Result<Element<'a>, ScriptError> {
        self.need(depth + 1)?;
        Ok(self.0.remove(self.0.len() - (depth + 1)))
    }

    /// Inserts a copy of the top below the second element.
    #[inline]
    pub(crate) fn tuck(&mut self) -> Result<(), ScriptError> {
        self.need(2)?;
        let top = self.0[self.0.len() - 1];
        self.0.insert(self.0.len() - 2, top);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_item_truth() {
        for (bytes, want) in [
            (&[][..], false),
            (&[0], false),
            (&[0x80], false),
            (&[0, 0, 0x80], false),
            (&[0x80, 0], true),
            (&[1], true),
            (&[0, 1], true),
            (&[0x81], true),
            (&[0, 0, 0], false),
        ] {
            assert_eq!(is_true(bytes), want, "{bytes:?}");
        }
    }

    fn of(bytes: &[u8]) -> Stack<'_> {
        let mut stack = Stack::default();
        stack.extend(bytes.chunks(1));
        stack
    }

    fn bytes(stack: &Stack<'_>) -> Vec<u8> {
        stack.elements().iter().map(|element| element.bytes()[0]).collect()
    }

    #[test]
    fn stack_moves_items_by_depth() {
        type Move = fn(&mut Stack<'_>) -> Result<(), ScriptError>;
        let rows: [(&str, Move, &[u8], &[u8]); 8] = [
            ("drop 2", |s| s.drop(2), &[1, 2, 3], &[1]),
            ("copy two from depth 3", |s| s.copy(3, 2), &[1, 2, 3, 4], &[1, 2, 3, 4, 1, 2]),
            ("copy the top", |s| s.copy(0, 1), &[1], &[1, 1]),
            ("rotate 3", |s| s.rotate(3, 1), &[0, 1, 2, 3], &[0, 2, 3, 1]),
            ("rotate 6 by 2", |s| s.rotate(6, 2), &[1, 2, 3, 4, 5, 6], &[3, 4, 5, 6, 1, 2]),
            ("remove", |s| s.remove(2).map(drop), &[1, 2, 3], &[2, 3]),
            ("tuck", |s| s.tuck(), &[1, 2], &[2, 1, 2]),
            ("pop", |s| s.pop().map(drop), &[1], &[]),
        ];
        for (name, step, before, after) in rows {
            let mut stack = of(before);
            step(&mut stack).unwrap();
            assert_eq!(bytes(&stack), after, "{name}");
        }
        for (name, step, ..) in rows {
            assert_eq!(step(&mut of(&[])), Err(ScriptError::InvalidStackOperation), "{name} of nothing");
        }
    }

    #[test]
    fn stack_memory_is_reused() {
        let mut stack = Stack::default();
        stack.extend([&[7u8][..]; 100].into_iter());
        let room = stack.0.capacity();
        let again: Stack<'_> = Stack::recycled(stack);
        assert_eq!((again.len(), again.0.capacity()), (0, room));
    }
}
