//! Memory that a thread keeps between calls, because otherwise the system would allocate and free it each time.
//!
//! A value is moved out for a call and back after it: a panic in between loses it, and a nested call makes a new one.

use std::any::Any;
use std::cell::Cell;
use std::thread::LocalKey;

/// The kept value. It has any type, because a `static` cannot be generic over kinds of vectors. Declare it
/// `thread_local`.
pub(super) type Kept = Cell<Option<Box<dyn Any>>>;

/// Calls `code` with the kept value; with a new one from `new` if there is no value, or one of another type.
pub(super) fn with_kept<T: 'static, R>(
    kept: &'static LocalKey<Kept>,
    new: impl FnOnce() -> T,
    code: impl FnOnce(&mut T) -> R,
) -> R {
    let mut value = kept.take().and_then(|kept| kept.downcast::<T>().ok()).unwrap_or_else(|| Box::new(new()));
    let result = code(&mut value);
    kept.set(Some(value));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static KEPT: Kept = const { Kept::new(None) };
    }

    #[test]
    fn what_is_kept_comes_again_and_another_type_does_not() {
        let grow = |item: u8| {
            with_kept(&KEPT, Vec::new, |list: &mut Vec<u8>| {
                list.push(item);
                list.clone()
            })
        };
        assert_eq!(grow(1), [1]);
        assert_eq!(grow(2), [1, 2]);
        assert_eq!(with_kept(&KEPT, || 7, |number: &mut u64| *number), 7, "another kind of vector");
        assert_eq!(grow(3), [3], "the last one is kept");
        let inner = with_kept(&KEPT, Vec::new, |outer: &mut Vec<u8>| (grow(4), outer.clone()));
        assert_eq!(inner, (vec![4], vec![3]), "a call inside a call");
    }
}
