//! The page: one file with its style and script, which loads nothing from other hosts.

/// The page as HTML.
pub const PAGE: &str = include_str!("page.html");

#[cfg(test)]
mod tests {
    use super::PAGE;

    #[test]
    fn page_asks_no_other_host_and_names_what_it_reads() {
        for (row, text) in [
            ("its language", "<html lang=\"en\">"),
            ("phones", "name=\"viewport\""),
            ("the dark", "prefers-color-scheme: dark"),
            ("who wants no motion", "prefers-reduced-motion"),
            ("its events, by a literal address", "new EventSource(\"events\")"),
            ("a main part", "<main"),
            ("what is read out", "aria-live=\"polite\""),
        ] {
            assert!(PAGE.contains(text), "{row}: {text}");
        }
        let hosts = PAGE
            .match_indices("://")
            .filter(|(at, _)| !PAGE[..*at].ends_with("http") || !PAGE[*at..].starts_with("://www.w3.org/"));
        assert_eq!(hosts.count(), 0, "no other host");
        for word in ["password", "cookie", "innerHTML", "eval("] {
            assert!(!PAGE.contains(word), "{word}");
        }
    }

    /// Every field that the script reads is one of the view's.
    #[test]
    fn page_reads_fields_that_there_are() {
        let view = serde_json::to_value(crate::board::tests::board().view()).unwrap();
        let names = PAGE
            .match_indices("v.")
            .filter(|(at, _)| !PAGE[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.'));
        let mut count = 0;
        for (at, _) in names {
            let name: String = PAGE[at + 2..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            assert!(view.get(&name).is_some(), "v.{name}");
            count += 1;
        }
        assert!(count > 20, "{count} fields");
    }
}
