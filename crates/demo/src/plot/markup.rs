//! Text for HTML and SVG.

/// `text`, escaped for HTML and SVG, in text and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// `name`, cut with an ellipsis if it is longer than `letters_max`.
pub(super) fn shortened(name: &str, letters_max: usize) -> String {
    if name.chars().count() <= letters_max {
        return name.to_owned();
    }
    name.chars().take(letters_max - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_leaves_no_markup() {
        assert_eq!(escape("<a href=\"x\">&'\n"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39; ");
        assert_eq!((shortened("héllo", 5).as_str(), shortened("héllos", 5).as_str()), ("héllo", "héll…"));
    }
}
