//! The command `ffwd top`: shows a running sync on a full screen, from the events of its web page.
//!
//! One thread reads the events, and reconnects when they end. The screen is drawn at each event and at each key.

mod access;
mod screen;

use crate::args::service::Top;
use crate::{Failure, INTERRUPTED};
use access::Access;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use screen::Section;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use watch::View;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_secs(1);
/// How long to wait for a key before the screen is redrawn.
const LOOK: Duration = Duration::from_millis(150);
/// Maximum size of one event in bytes.
const EVENT_BYTES_MAX: u64 = 4 << 20;

/// A message of the thread that reads events.
enum News {
    View(Box<View>),
    Lost(String),
}

/// Shows the screen until `q`.
///
/// # Errors
///
/// There is no terminal, or it fails.
pub(crate) fn run(given: &Top) -> Result<ExitCode, Failure> {
    let access = Access::of(given)?;
    let url = access.url.clone();
    if !std::io::stdout().is_terminal() {
        let metrics = url.replace("/events", "/metrics");
        let page = url.replace("/events", "/");
        return Err(Failure::fault("ffwd top needs a terminal", format!("Without one, read {metrics} or {page}")));
    }
    let (sender, news) = channel();
    std::thread::Builder::new()
        .name("events".to_owned())
        .spawn(move || read_all(&access, &sender))
        .map_err(|why| Failure::fault(format!("no thread to read events with: {why}"), crate::limits::THREADS))?;
    let mut terminal = ratatui::init();
    let shown = show(&mut terminal, &url, &news);
    ratatui::restore();
    shown.map_err(|why| {
        Failure::fault(format!("the terminal: {why}"), "Open another terminal, or read the page or /metrics")
    })
}

fn show(terminal: &mut ratatui::DefaultTerminal, url: &str, news: &Receiver<News>) -> std::io::Result<ExitCode> {
    let mut view = None;
    let mut state = format!("connecting to {url}");
    let mut section = Section::Stages;
    loop {
        for one in news.try_iter() {
            match one {
                News::View(new) => (view, state) = (Some(new), String::new()),
                News::Lost(why) => state = why,
            }
        }
        terminal.draw(|frame| screen::draw(frame, view.as_deref(), &state, section))?;
        if !event::poll(LOOK)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(ExitCode::SUCCESS),
                KeyCode::Tab => section = section.next(),
                _ if is_control_c => return Ok(ExitCode::from(INTERRUPTED)),
                _ => {}
            }
        }
    }
}

/// Reads events and reconnects, until the receiver is dropped.
fn read_all(access: &Access, sender: &Sender<News>) {
    let url = &access.url;
    loop {
        let why = match read(access, sender) {
            Ok(()) => "the connection ended".to_owned(),
            Err(why) => why,
        };
        let hint = "is a sync with --server running, and is this its port?";
        if sender.send(News::Lost(format!("{url}: {why}; trying again ({hint})"))).is_err() {
            return;
        }
        std::thread::sleep(RETRY);
    }
}

/// Reads the events of one connection. Sends the password if the server requires it.
fn read(access: &Access, sender: &Sender<News>) -> Result<(), String> {
    let agent = ureq::Agent::config_builder().timeout_connect(Some(Duration::from_secs(5))).build().new_agent();
    let ask = || agent.get(&access.url).header("Accept", "text/event-stream");
    let answer = match ask().call() {
        Err(ureq::Error::StatusCode(401)) => match ask().header("Authorization", access.header()?).call() {
            Err(ureq::Error::StatusCode(401)) => Err("it knows another password".to_owned()),
            answer => answer.map_err(|why| why.to_string()),
        },
        answer => answer.map_err(|why| why.to_string()),
    };
    let answer = answer?;
    let mut lines = BufReader::new(answer.into_body().into_reader());
    loop {
        let mut line = String::new();
        let count = std::io::Read::take(&mut lines, EVENT_BYTES_MAX).read_line(&mut line);
        if count.map_err(|why| why.to_string())? == 0 {
            return Ok(());
        }
        if let Some(text) = line.strip_prefix("data:") {
            let view = serde_json::from_str(text).map_err(|why| format!("not an event of ffwd's: {why}"))?;
            if sender.send(News::View(view)).is_err() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    fn access(url: String, password: &str) -> Access {
        let login = format!("bob:{password}");
        Access::with_password(url, login)
    }

    #[test]
    fn events_are_read_until_their_end_and_what_is_none_is_named() {
        let view = View { height: 7, ..View::default() };
        let good = format!(": hello\n\ndata: {}\n\n", serde_json::to_string(&view).unwrap());
        for (row, body, want) in
            [("good", good.as_str(), Ok(1)), ("none", "data: {}\n\n", Err("not an event")), ("empty", "", Ok(0))]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/events", listener.local_addr().unwrap());
            let answer = format!("{HEAD}{body}");
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let (sender, news) = channel();
            let got = read(&access(url, "word"), &sender);
            server.join().unwrap();
            drop(sender);
            let heights: Vec<u32> = news
                .iter()
                .filter_map(|one| if let News::View(view) = one { Some(view.height) } else { None })
                .collect();
            match want {
                Ok(count) => assert_eq!((got, heights), (Ok(()), vec![7; count]), "{row}"),
                Err(why) => assert!(got.unwrap_err().contains(why), "{row}"),
            }
        }
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

    /// The server is a socket that knows `bob:word`, and counts requests with a password.
    #[test]
    fn the_password_is_sent_to_who_asks_for_it() {
        for (password, want, sent) in [("word", Ok(()), 1), ("wrong", Err("it knows another password".to_owned()), 1)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/events", listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let mut passwords = 0;
                for _ in 0..2 {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut bytes = [0; 4096];
                    let count = stream.read(&mut bytes).unwrap();
                    let request = String::from_utf8_lossy(&bytes[..count]).to_lowercase();
                    passwords += request.matches("authorization: basic ").count();
                    let refused = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    // `bob:word` in base 64.
                    let answer = if request.contains("ym9iondvcmq=") { HEAD } else { refused };
                    stream.write_all(answer.as_bytes()).unwrap();
                }
                passwords
            });
            let (sender, _news) = channel();
            assert_eq!(read(&access(url, password), &sender), want, "{password}");
            assert_eq!(server.join().unwrap(), sent, "{password}");
        }
    }
}
