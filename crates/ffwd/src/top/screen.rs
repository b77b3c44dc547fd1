//! Draws the screen of `ffwd top`.

use primitives::human;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Gauge, Paragraph, Row, Table, Wrap};
use watch::View;
use watch::view::PeerView;

/// Lines of the head: two for the state, then height, bar, rates.
const HEAD: u16 = 6;
/// Maximum number of warnings shown, and of lines for each.
const WARNINGS_MAX: usize = 2;
const WARNING: u16 = 3;
/// Lines of the stages and the cache, with their frame.
const MIDDLE: u16 = 13;
/// Minimum terminal width, in columns, for two boxes side by side.
const WIDE: u16 = 90;

fn soft() -> Style {
    Style::default().fg(Color::Gray)
}

fn framed(title: String) -> Block<'static> {
    Block::default().borders(Borders::TOP).border_style(Style::default().fg(Color::DarkGray)).title(title)
}

/// The section in the middle of a narrow screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Section {
    /// Time of the stages.
    Stages,
    /// Coins and the machine.
    Coins,
    /// The log, which has few lines at the bottom of a low screen.
    Log,
}

impl Section {
    /// The section that Tab shows next.
    pub(super) fn next(self) -> Section {
        match self {
            Section::Stages => Section::Coins,
            Section::Coins => Section::Log,
            Section::Log => Section::Stages,
        }
    }
}

/// Draws a view, if there is one. The last line shows `state`: the problem, or empty. If there is a problem the figures
/// are marked as the last known ones.
pub(super) fn draw(frame: &mut Frame<'_>, view: Option<&View>, state: &str, section: Section) {
    let area = frame.area();
    let warnings = view.map_or(Vec::new(), warnings);
    let warnings_height = WARNING * warnings.len() as u16;
    let [head, middle, peers, log, foot] = Layout::vertical([
        Constraint::Length(HEAD + warnings_height),
        Constraint::Length(MIDDLE),
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let is_narrow = area.width < WIDE;
    frame.render_widget(Paragraph::new(foot_line(view, state, is_narrow)), foot);
    let Some(view) = view else { return };
    let [head, below] = Layout::vertical([Constraint::Length(HEAD), Constraint::Length(warnings_height)]).areas(head);
    draw_head(frame, head, view, state);
    let lines: Vec<Line<'_>> = warnings.into_iter().map(Line::raw).collect();
    let yellow = Style::default().fg(Color::Yellow);
    frame.render_widget(Paragraph::new(lines).style(yellow).wrap(Wrap { trim: true }), below);
    if !is_narrow {
        let [left, right] = Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).areas(middle);
        draw_stages(frame, left, view);
        draw_cache(frame, right, view);
    } else {
        match section {
            Section::Stages => draw_stages(frame, middle, view),
            Section::Coins => draw_cache(frame, middle, view),
            Section::Log => draw_log(frame, middle, view),
        }
    }
    draw_peers(frame, peers, view);
    draw_log(frame, log, view);
    if !state.is_empty() {
        let figures = Rect { height: area.height.saturating_sub(foot.height), ..area };
        frame.buffer_mut().set_style(figures, Style::default().add_modifier(Modifier::DIM));
    }
}

/// Warnings that the state line does not already show.
fn warnings(view: &View) -> Vec<&str> {
    let texts = view.warnings.iter().map(String::as_str).filter(|text| *text != view.state.sentence);
    texts.take(WARNINGS_MAX).collect()
}

fn foot_line(view: Option<&View>, state: &str, is_narrow: bool) -> Line<'static> {
    let version = view.map_or_else(String::new, |view| format!("ffwd {} · {} · ", view.version, view.chain));
    let keys = if is_narrow && view.is_some() { "q quits, Tab shows more" } else { "q quits" };
    if state.is_empty() {
        Line::styled(format!("{version}{keys}"), soft())
    } else {
        Line::styled(format!("{version}{keys} · {state}"), Style::default().fg(Color::Yellow))
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View, problem: &str) {
    let lines = [Constraint::Length(2), Constraint::Length(1), Constraint::Length(1), Constraint::Length(1)];
    let [state, first, bar, rates] = Layout::vertical(lines).areas(area);
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let colour = if view.state.is_trouble { Style::default().fg(Color::Yellow) } else { Style::default() };
    let known = if problem.is_empty() { "" } else { "last known: " };
    let sentence = Paragraph::new(format!("{known}{}", view.state.sentence)).style(colour).wrap(Wrap { trim: true });
    frame.render_widget(sentence, state);
    let behind = view.height_end > view.height;
    let mut words = vec![Span::styled(human::count(view.height.into()), bold)];
    if let Some(height) = view.presync {
        words.push(Span::styled(format!("  looking at headers: {}", human::count(height.into())), soft()));
    } else if behind {
        words.push(Span::styled(format!(" of {}", human::count(view.height_end.into())), soft()));
    }
    match view.to_go_s {
        Some(seconds) if behind => {
            words.push(Span::raw(format!("   {} to go at this speed", human::duration(seconds))))
        }
        _ if behind && view.state.name == "blocks" => words.push(Span::raw("   measuring the speed")),
        _ => {}
    }
    frame.render_widget(Paragraph::new(Line::from(words)), first);
    let share = view.share.clamp(0.0, 1.0);
    let gauge = Gauge::default().ratio(share).use_unicode(true).label(format!("{:.1} %", share * 100.0));
    frame.render_widget(gauge.gauge_style(Style::default().fg(Color::Rgb(214, 122, 62)).bg(Color::DarkGray)), bar);
    let line = format!(
        "{known}{} blocks/s   {} MB/s   {} inputs/s   {} processors busy   up {}",
        human::figure(view.blocks_per_s),
        human::figure(view.bytes_per_s / 1e6),
        human::figure(view.inputs_per_s),
        human::figure(view.machine.processors),
        human::duration(view.uptime_s)
    );
    frame.render_widget(Paragraph::new(line).style(soft()), rates);
}

fn draw_stages(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let busy: f64 = view.stages.iter().map(|stage| stage.busy).sum();
    let all = busy.max(view.workers as f64).max(1.0);
    let width = usize::from(area.width).saturating_sub(44).clamp(4, 40);
    let rows = view.stages.iter().map(|stage| {
        let share = stage.busy / all;
        let bar = "█".repeat((share * width as f64).round() as usize);
        let waiting = if stage.queue >= 1.5 { format!("{:.0} wait", stage.queue) } else { String::new() };
        Row::new([stage.name.replace('_', " "), format!("{:>3.0} %", share * 100.0), bar, waiting])
    });
    let widths = [Constraint::Length(18), Constraint::Length(6), Constraint::Length(width as u16), Constraint::Fill(1)];
    let title = format!("Where the time goes: {} of {} threads busy ", human::figure(busy), view.workers);
    frame.render_widget(Table::new(rows, widths).block(framed(title)), area);
}

fn draw_cache(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let cache = &view.cache;
    let machine = &view.machine;
    let flush = cache.flush_mean_s.map_or_else(String::new, |seconds| format!(", {} each", human::duration(seconds)));
    let rate = |bytes: f64| format!("{} MB/s", human::figure(bytes / 1e6));
    let hits = cache.hit_rate.map_or_else(|| "–".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    let free = machine.free_bytes.map_or_else(|| "–".to_owned(), human::bytes);
    let rows = [
        ("coins", human::count(cache.coins)),
        ("cache", format!("{} of {}", human::bytes(cache.bytes), human::bytes(cache.bytes_max))),
        ("cache hits", hits),
        ("flushes", format!("{}{flush}", human::count(cache.flushes))),
        ("compactions", human::count(cache.compactions)),
        ("memory", human::bytes(machine.anonymous_bytes)),
        ("disk reads", rate(machine.read_per_s)),
        ("disk writes", rate(machine.written_per_s)),
        ("disk free", free),
        ("reorgs, refused", format!("{}, {}", view.reorgs, view.refused.iter().map(|(_, count)| count).sum::<u64>())),
    ];
    let rows = rows.map(|(name, value)| Row::new([Span::styled(name, soft()), Span::raw(value)]));
    let widths = [Constraint::Length(17), Constraint::Fill(1)];
    frame.render_widget(Table::new(rows, widths).block(framed("Coins and machine ".to_owned())), area);
}

fn draw_peers(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let mut peers: Vec<&PeerView> = view.peers.iter().collect();
    peers.sort_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s).then(a.id.cmp(&b.id)));
    let rows = peers.into_iter().map(|peer| {
        let stalls = peer.stalls_s.filter(|&seconds| seconds > 1.0);
        let speed = match stalls {
            Some(seconds) => format!("stalls for {}", human::duration(seconds)),
            None => format!("{} MB/s", human::figure(peer.bytes_per_s / 1e6)),
        };
        let style = if stalls.is_some() { Style::default().fg(Color::Yellow) } else { Style::default() };
        Row::new([
            peer.address.clone(),
            format!("{}, {}", if peer.inbound { "in" } else { "out" }, peer.transport),
            speed,
            human::bytes(peer.received),
            peer.in_flight.to_string(),
            peer.agent.clone(),
        ])
        .style(style)
    });
    let widths = [
        Constraint::Length(28),
        Constraint::Length(9),
        Constraint::Length(18),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Fill(1),
    ];
    let title = format!("Peers: {} received, {} sent ", human::bytes(view.received), human::bytes(view.sent));
    let head = Row::new(["address", "direction", "speed", "received", "in flight", "program"]).style(soft());
    frame.render_widget(Table::new(rows, widths).header(head).block(framed(title)), area);
}

fn draw_log(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let room = usize::from(area.height.saturating_sub(1));
    let first = view.log.len().saturating_sub(room);
    let line = |line: &watch::view::LogLine| {
        let style = match line.level.as_str() {
            "warning" => Style::default().fg(Color::Yellow),
            "error" => Style::default().fg(Color::Red),
            _ => Style::default(),
        };
        Line::styled(line.text.clone(), style)
    };
    let lines: Vec<Line<'_>> = view.log[first..].iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(framed("Log ".to_owned())), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::reporting::state::{BlockWait, SessionState};
    use primitives::Height;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use watch::view::{LogLine, StageView, StateView};

    fn state(state: &SessionState) -> StateView {
        StateView { name: state.name().to_owned(), sentence: state.sentence(), is_trouble: state.is_trouble() }
    }

    fn drawn(width: u16, height: u16, view: Option<&View>, state: &str) -> String {
        drawn_with(width, height, view, state, Section::Stages)
    }

    fn drawn_with(width: u16, height: u16, view: Option<&View>, state: &str, section: Section) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view, state, section)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn screen_has_what_matters_at_every_size() {
        let stage = StageView { name: "look_up".to_owned(), busy: 1.0, queue: 4.0, total_s: 9.0 };
        let peer = PeerView { address: "203.0.113.7:8333".to_owned(), stalls_s: Some(3.0), ..PeerView::default() };
        let said = LogLine { time: 1, level: "warning".to_owned(), text: "the disk is slow".to_owned() };
        let view = View {
            height: 612_345,
            height_end: 975_310,
            share: 0.4137,
            to_go_s: Some(9312.0),
            limit: "processor".to_owned(),
            state: state(&SessionState::CpuBound),
            workers: 2,
            stages: vec![stage],
            peers: vec![peer],
            log: vec![said],
            ..View::default()
        };
        let text = drawn(120, 40, Some(&view), "");
        for want in [
            "612,345 of 975,310",
            "41.4 %",
            "2 h 35 min to go",
            "CPU-bound",
            "look up",
            "50 %",
            "4 wait",
            "203.0.113.7:8333",
            "stalls for 3.00 s",
            "the disk is slow",
            "Coins and machine",
            "q quits",
        ] {
            assert!(text.contains(want), "{want} is not in\n{text}");
        }
        for (width, height) in [(1, 1), (20, 5), (40, 20), (80, 24), (300, 100)] {
            drawn(width, height, Some(&view), "");
            drawn(width, height, Some(&View::default()), "lost");
        }
        // A usual terminal has room for one section in the middle.
        let sections = [
            (Section::Stages, "Where the time goes"),
            (Section::Coins, "Coins and machine"),
            (Section::Log, "the disk is slow"),
        ];
        for (section, content) in sections {
            let text = drawn_with(80, 24, Some(&view), "", section);
            for want in [content, "q quits, Tab shows more", "Peers:", "203.0.113.7:8333", "612,345"] {
                assert!(text.contains(want), "{want} is not in\n{text}");
            }
            assert!(!text.contains("last known"), "{text}");
        }
        assert_eq!(Section::Stages.next().next().next(), Section::Stages);
        let old = drawn(120, 40, Some(&view), "127.0.0.1:8332: refused");
        assert!(old.contains("last known: 0 blocks/s") && old.contains("last known: "), "{old}");
        let lost = drawn(80, 24, None, "127.0.0.1:8332: refused");
        assert!(lost.contains("refused") && lost.contains("q quits"), "{lost}");
    }

    /// Where nothing happens the screen says why, and claims no end; a long sentence is broken, not cut.
    #[test]
    fn screen_says_why_nothing_happens() {
        let peer = Some("[2001:db8:85a3:8d3:1319:8a2e:370:7348]:8333".to_owned());
        let wait = BlockWait { height: Height::new(100), peer, seconds: 75 };
        for what in [SessionState::NoHeaders, SessionState::WaitingForBlock(wait), SessionState::NoNetwork] {
            let view =
                View { height: 99, height_end: 99, headers: 99, share: 0.999, state: state(&what), ..View::default() };
            let text = drawn(80, 24, Some(&view), "");
            let words = text.replace(['"', '\n'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&what.sentence()), "{} is not in\n{text}", what.sentence());
            for lie in ["following", "at the tip", "every known block", "100.0 %"] {
                assert!(!text.contains(lie), "{lie} is in\n{text}");
            }
        }
    }
}
