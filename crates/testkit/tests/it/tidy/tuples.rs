//! Tuples that save a line or an argument: `let (a, b) = (x, y);` and parameters that are tuple patterns.

/// Bindings of several values by one `let`, each as its line and text. Patterns that may not match are none: they end with a block.
pub(super) fn lets(code: &str) -> Vec<String> {
    words(code, "let").filter_map(|start| tuple_let(code, start).map(|end| place(code, start, end))).collect()
}

/// Functions with a parameter that takes a tuple apart.
pub(super) fn parameters(code: &str) -> Vec<String> {
    let functions = words(code, "fn").filter_map(|start| {
        let open = parameters_of(code, start)?;
        let end = closing(code, open)?;
        // A pattern of a type with a name is none: that type exists.
        let is_tuple = |part: &str| {
            let of = closing(part, 0).and_then(|end| part[end..].trim_start().strip_prefix(':'));
            of.is_some_and(|of| of.trim_start().starts_with('('))
        };
        parts(&code[open + 1..end - 1]).into_iter().any(is_tuple).then(|| place(code, start, open))
    });
    functions.collect()
}

fn place(code: &str, start: usize, end: usize) -> String {
    let text: Vec<&str> = code[start..end].split_whitespace().collect();
    let line = code[..start].matches('\n').count() + 1;
    format!("{line}: {}", text.join(" "))
}

/// Where this word begins, alone.
fn words<'c>(code: &'c str, word: &'static str) -> impl Iterator<Item = usize> + 'c {
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    code.match_indices(word)
        .map(|(start, _)| start)
        .filter(move |&start| !code[..start].ends_with(is_word) && !code[start + word.len()..].starts_with(is_word))
}

/// The end of `let (..) = (..);` or `let (..): (..) = (..);` with more than one value, if that begins here.
fn tuple_let(code: &str, start: usize) -> Option<usize> {
    let pattern = skip(code, start + "let".len());
    let behind = closing(code, pattern)?;
    // Literals are spaces here: the pattern says how many values there are.
    let count = parts(&code[pattern + 1..behind - 1]).len();
    let mut at = skip(code, behind);
    if code[at..].starts_with(':') {
        at = skip(code, closing(code, skip(code, at + 1))?);
    }
    let values = skip(code, at + code[at..].starts_with('=').then_some(1)?);
    let end = closing(code, values)?;
    let is_whole = code[skip(code, end)..].starts_with(';');
    (is_whole && count > 1).then_some(end)
}

/// Where the parameters of a function open: behind its name, and behind `<..>`.
fn parameters_of(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0;
    let mut last = b' ';
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'<' => depth += 1,
            b'>' if last != b'-' => depth -= 1,
            b'(' if depth == 0 => return Some(at),
            b';' | b'{' => return None,
            _ => {}
        }
        last = byte;
    }
    None
}

fn skip(code: &str, at: usize) -> usize {
    code.len() - code[at..].trim_start().len()
}

/// One byte behind the bracket that closes the `(` at `open`.
fn closing(code: &str, open: usize) -> Option<usize> {
    if !code[open..].starts_with('(') {
        return None;
    }
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// What stands between the commas that are in no bracket.
fn parts(list: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                found.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(list[start..].trim());
    found.retain(|part| !part.is_empty());
    found
}

#[test]
fn tuples_are_told_from_what_looks_like_them() {
    for (row, code, want_lets, want_parameters) in [
        ("two values", "fn f() { let (a, b) = (1, g(2, 3)); }", 1, 0),
        ("with types, over lines", "let (mut a, b): (u8, Vec<u8>) =\n    (1,\n     x,\n    );", 1, 0),
        ("a call's tuple", "let (a, b) = f(1, 2);", 0, 0),
        ("a pattern that may not match", "let (Some(a), Some(b)) = (x, y) else { return };", 0, 0),
        ("one value in brackets", "let (a) = (1 + f(2, 3));", 0, 0),
        ("what follows the tuple", "let (a, b) = (x, y).pair();", 0, 0),
        ("a parameter", "fn f<F: Fn(u8) -> u8>(x: F, (a, b): (u8, u8)) {}", 0, 1),
        ("a type with a name", "fn f((a, b): &Pair) {}", 0, 0),
        ("a tuple that is left whole", "fn f(pair: (u8, u8), g: impl Fn((u8, u8))) { g(pair) }", 0, 0),
        ("a closure", "fn f() { x.map(|(a, b)| a + b) }", 0, 0),
    ] {
        assert_eq!((lets(code).len(), parameters(code).len()), (want_lets, want_parameters), "{row}");
    }
}
