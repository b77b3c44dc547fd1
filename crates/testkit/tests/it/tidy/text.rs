//! Reads Rust as far as the rules need: what is comment, what is literal, where a brace closes.

/// A file's text twice, each of the same length as the text, with line breaks kept and the rest as spaces.
pub(super) struct Blanked {
    /// Without comments and without the insides of literals.
    pub(super) code: String,
    /// Comments alone.
    pub(super) comments: String,
}

/// Tells code, comments and literals apart.
pub(super) fn blank(text: &str) -> Blanked {
    let bytes = text.as_bytes();
    let gap: Vec<u8> = bytes.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }).collect();
    let (mut code, mut comments) = (gap.clone(), gap);
    let mut start = 0;
    while start < bytes.len() {
        let (end, is_comment) = match piece(bytes, start) {
            Piece::Code => {
                code[start] = bytes[start];
                start += 1;
                continue;
            }
            Piece::Comment(end) => (end, true),
            Piece::Literal(end) => (end, false),
        };
        if is_comment {
            comments[start..end].copy_from_slice(&bytes[start..end]);
        }
        start = end;
    }
    let string = |bytes| String::from_utf8(bytes).expect("whole pieces of UTF-8");
    Blanked { code: string(code), comments: string(comments) }
}

/// What begins at a byte, and where it ends.
enum Piece {
    Code,
    Comment(usize),
    Literal(usize),
}

fn piece(bytes: &[u8], start: usize) -> Piece {
    let rest = &bytes[start..];
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    match rest {
        [b'/', b'/', ..] => Piece::Comment(start + find(rest, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => Piece::Comment(start + find(rest, b"*/").map_or(rest.len(), |end| end + 2)),
        [b'"', ..] => Piece::Literal(start + quoted(rest, b'"')),
        [b'r', b'"' | b'#', ..] if start == 0 || !is_word(bytes[start - 1]) || bytes[start - 1] == b'b' => {
            raw(rest).map_or(Piece::Code, |length| Piece::Literal(start + length))
        }
        [b'\'', b'\\', ..] => Piece::Literal(start + quoted(rest, b'\'')),
        [b'\'', first, ..] => {
            let width = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            let is_char = rest.get(1 + width) == Some(&b'\'');
            // Else a lifetime.
            if is_char { Piece::Literal(start + width + 2) } else { Piece::Code }
        }
        [0..0x80, ..] | [] => Piece::Code,
        // Outside comments and literals, which are whole pieces, there is ASCII alone.
        [_, ..] => Piece::Literal(start + 1),
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The length of a literal with escapes.
fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut end = 1;
    while end < bytes.len() && bytes[end] != quote {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    (end + 1).min(bytes.len())
}

/// The length of a raw string, if it is one.
fn raw(bytes: &[u8]) -> Option<usize> {
    let marks = bytes[1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(1 + marks) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &vec![b'#'; marks]].concat();
    let body = &bytes[marks + 2..];
    Some(marks + 2 + find(body, &end).map_or(body.len(), |found| found + end.len()))
}

/// Where the brace that opens at `open` is closed, one byte behind it.
pub(super) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (index, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return index + 1;
        }
    }
    code.len()
}

/// The first `;` or `{` of an item that begins at `start`, outside of `()` and `[]`.
fn body(code: &str, start: usize) -> Option<(usize, u8)> {
    let mut depth = 0i32;
    for (index, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' | b'{' if depth == 0 => return Some((index, byte)),
            _ => {}
        }
    }
    None
}

/// The code without the items behind `#[cfg(test)]` or `#[cfg(all(test, ..))]`.
pub(super) fn without_tests(code: &str) -> String {
    let (mut out, mut rest) = (String::new(), code);
    let next = |code: &str| [code.find("#[cfg(test)]"), code.find("#[cfg(all(test")].into_iter().flatten().min();
    while let Some(start) = next(rest) {
        out.push_str(&rest[..start]);
        let end = match body(rest, start) {
            Some((open, b'{')) => closing(rest, open),
            Some((end, _)) => end + 1,
            None => rest.len(),
        };
        rest = &rest[end..];
    }
    out + rest
}

/// The name and lines of each function with a body, from its `fn` to its last brace.
pub(super) fn functions(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let is_word = code[..start].chars().next_back().is_some_and(|c| c == '_' || c.is_alphanumeric());
        let name: String = code[start + 3..].chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect();
        if is_word || name.is_empty() {
            continue;
        }
        if let Some((open, b'{')) = body(code, start) {
            let lines = code[start..closing(code, open)].matches('\n').count() + 1;
            found.push((name, lines));
        }
    }
    found
}

/// Whether a line of `node` asks for the progress counters: all at once, or one of the reporter's.
pub(super) fn reads_counters(line: &str) -> bool {
    let line: String = line.split_whitespace().collect();
    let of_one = ["reporter.", "reporter().", "counters.", "counters()."].iter().any(|owner| line.contains(owner));
    line.contains(".counted()") || of_one && [".load(", ".swap(", ".fetch_"].iter().any(|read| line.contains(read))
}

#[test]
fn reads_of_counters_are_seen() {
    for (row, line, want) in [
        ("all", "let height = live.figures.counted().height;", true),
        ("one", "self.reporter.height.load(Relaxed)", true),
        ("one, with a method between", "datadir.reporter() .blocks.load(Relaxed)", true),
        ("a sum", "counters.bytes.fetch_add(5, Relaxed)", true),
        ("a write", "self.reporter.set_height(height);", false),
        ("another atomic", "self.done.load(Relaxed)", false),
    ] {
        assert_eq!(reads_counters(line), want, "{row}");
    }
}

#[test]
fn blank_tells_comments_and_literals_from_code() {
    for (row, text, code, comments) in [
        ("line comment", "a // b\nc", "a     \nc", "  // b\n "),
        ("block comment", "a /* b\n */ c", "a     \n    c", "  /* b\n */  "),
        ("string", r#"a("\"//", b)"#, r#"a(      , b)"#, "            "),
        ("raw string", "a(r#\"\"\"#, b)", "a(      , b)", "            "),
        ("byte string", "b\"x\" b", "b    b", "      "),
        ("char", "'{' '\\'' '\u{e9}'", "            ", "            "),
        ("lifetime", "&'a str", "&'a str", "       "),
    ] {
        let blanked = blank(text);
        assert_eq!(
            (blanked.code.trim_end(), blanked.comments.trim_end()),
            (code.trim_end(), comments.trim_end()),
            "{row}"
        );
        assert_eq!(blanked.code.len(), text.len(), "{row}");
    }
}

#[test]
fn without_tests_cuts_whole_items() {
    for (row, code, want) in [
        ("module", "a\n#[cfg(test)]\nmod tests { fn f() { } }\nb", "a\n\nb"),
        ("file", "#[cfg(test)]\nmod tests;\nb", "\nb"),
        ("all", "#[cfg(all(test, miri))] fn f() -> [u8; 3] { }b", "b"),
        ("not", "#[cfg(not(test))] fn f() {}", "#[cfg(not(test))] fn f() {}"),
    ] {
        assert_eq!(without_tests(code), want, "{row}");
    }
}

#[test]
fn functions_are_measured_to_their_last_brace() {
    let code = "fn one() -> [u8; 2] { }\nfn two()\n{\n  if x { }\n}\ntrait T { fn none(); }\nfn_ x; type F = fn(u8);";
    assert_eq!(functions(code), [("one".to_owned(), 1), ("two".to_owned(), 4)]);
}
