//! `tributary status --watch` on a terminal: every program and its paths, each second, with the rates of the last minute.
//!
//! Not here: what the programs answer ([`crate::service::sockets`]).

use crate::service::fields::{list, number, word};
use crate::service::sockets;
use anyhow::{Context, Result};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time between two looks at the programs.
const REFRESH: Duration = Duration::from_secs(1);
/// Rates that are kept for each path: those of the last minute.
const KEPT: usize = 60;
/// Characters of a sparkline, the lowest rate first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a sparkline; it shows the newest rates.
const SPARKLINE: usize = 30;

/// Shows the programs until the user ends it.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn run() -> Result<ExitCode> {
    let mut terminal = ratatui::try_init().context("using the terminal")?;
    let mut view = View::default();
    let outcome = loop {
        let next = Instant::now() + REFRESH;
        view.take(sockets::ask_all());
        let drawn = view.until(next, |view| terminal.draw(|frame| view.draw(frame)).map(drop));
        match drawn {
            Ok(true) => {}
            Ok(false) => break Ok(ExitCode::SUCCESS),
            Err(error) => break Err(error).context("using the terminal"),
        }
    };
    ratatui::restore();
    outcome
}

/// What is shown.
#[derive(Debug, Default)]
struct View {
    programs: Vec<Value>,
    /// Rates of each path in Mbit/s, both directions together, by program, session and path.
    rates: BTreeMap<String, VecDeque<f64>>,
    /// First line that is shown.
    top: u16,
}

impl View {
    /// Takes what the programs answered.
    fn take(&mut self, programs: Vec<Value>) {
        self.programs = programs;
        let mut rates = BTreeMap::new();
        for program in &self.programs {
            for session in list(program, "sessions") {
                for path in list(session, "paths") {
                    let key = key(program, session, path);
                    let mut known: VecDeque<f64> = self.rates.remove(&key).unwrap_or_default();
                    known.push_back(number(path, "send_mbps") + number(path, "receive_mbps"));
                    if known.len() > KEPT {
                        known.pop_front();
                    }
                    rates.insert(key, known);
                }
            }
        }
        // Those of paths that are gone are forgotten.
        self.rates = rates;
    }

    /// Draws, and again after each key, until `next`. Returns whether the user goes on.
    fn until(
        &mut self,
        next: Instant,
        mut draw: impl FnMut(&Self) -> std::io::Result<()>,
    ) -> std::io::Result<bool> {
        loop {
            draw(self)?;
            let left = next.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                return Ok(true);
            }
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && !self.press(key)
            {
                return Ok(false);
            }
        }
    }

    /// Returns whether the user goes on.
    fn press(&mut self, key: KeyEvent) -> bool {
        let last = u16::try_from(self.lines().len()).unwrap_or(u16::MAX).saturating_sub(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Down => self.top = self.top.saturating_add(1),
            KeyCode::PageDown => self.top = self.top.saturating_add(10),
            KeyCode::Up => self.top = self.top.saturating_sub(1),
            KeyCode::PageUp => self.top = self.top.saturating_sub(10),
            KeyCode::Home => self.top = 0,
            _ => {}
        }
        self.top = self.top.min(last);
        true
    }

    fn draw(&self, frame: &mut Frame) {
        let block = Block::bordered().title(" tributary ").title_bottom(" ↑ ↓ scroll, q ends ");
        frame.render_widget(Paragraph::new(self.lines()).scroll((self.top, 0)).block(block), frame.area());
    }

    fn lines(&self) -> Vec<Line<'static>> {
        if self.programs.is_empty() {
            return vec!["no long-running `tributary` program of this user is running".into()];
        }
        self.programs.iter().flat_map(|program| self.program(program)).collect()
    }

    fn program(&self, program: &Value) -> Vec<Line<'static>> {
        let mut head = format!("{} (pid {})", word(program, "role"), program["pid"]);
        let listening: Vec<_> = list(program, "listening").iter().filter_map(Value::as_str).collect();
        if !listening.is_empty() {
            head += &format!(" on {}", listening.join(", "));
        }
        head += &format!(", up {:.0} s", number(program, "uptime_s"));
        if program["draining"] == true {
            head += ", ending";
        }
        let mut lines = vec![Line::from(head.bold())];
        for session in list(program, "sessions") {
            let of = ["client", "peer"].into_iter().find_map(|name| session[name].as_str());
            let of = of.map_or_else(String::new, |of| format!(" of {of}"));
            let connections = number(session, "connections");
            lines.push(
                format!("  session {}{of}, {connections:.0} connections", word(session, "session")).into(),
            );
            lines.push(heading());
            for path in list(session, "paths") {
                lines.extend(self.path(program, session, path));
            }
        }
        for link in list(program, "links") {
            let up = if link["up"] == true { Span::from("up").green() } else { Span::from("down").red() };
            lines.push(Line::from(vec![format!("  hop {}: ", word(link, "name")).into(), up]));
        }
        if let Some(doing) = program["doing"].as_str() {
            lines.push(format!("  {:.0} %: {doing}", number(program, "share") * 100.0).into());
        }
        lines.push("".into());
        lines
    }

    fn path(&self, program: &Value, session: &Value, path: &Value) -> Vec<Line<'static>> {
        let state = word(path, "state").to_owned();
        let colour = match state.as_str() {
            "up" => Color::Green,
            "silent" | "connecting" => Color::Yellow,
            "down" => Color::Red,
            _ => Color::DarkGray,
        };
        let rtt = path["rtt_ms"].as_f64().map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.1}"));
        let known = self.rates.get(&key(program, session, path));
        let bars = known.map(|rates| sparkline(rates.iter().copied())).unwrap_or_default();
        let mut lines = vec![Line::from(vec![
            format!("    {:<32} ", word(path, "radio")).into(),
            Span::styled(format!("{state:<11}"), Style::new().fg(colour)),
            format!("{bars:>SPARKLINE$}").cyan(),
            format!(" {:>8.2} {:>8.2} {rtt:>8}", number(path, "send_mbps"), number(path, "receive_mbps"))
                .into(),
        ])];
        if let Some(cause) = path["cause"].as_str() {
            let since = number(path, "since_s");
            lines.push(Line::from(format!("      for {since:.0} s: {cause}").fg(colour)));
        }
        lines
    }
}

fn heading() -> Line<'static> {
    let rates = format!("{:>SPARKLINE$}", "last half minute");
    format!("    {:<32} {:<11}{rates} {:>8} {:>8} {:>8}", "path", "state", "↑ Mbit/s", "↓ Mbit/s", "RTT ms")
        .dim()
        .into()
}

/// Rates as bars, the newest last; the highest bar is the highest rate.
fn sparkline(rates: impl DoubleEndedIterator<Item = f64> + Clone) -> String {
    let highest = rates.clone().fold(0.0, f64::max);
    let bar = |rate: f64| match highest > 0.0 {
        true => BARS[((rate / highest) * (BARS.len() - 1) as f64).round() as usize],
        false => BARS[0],
    };
    let newest: Vec<char> = rates.rev().take(SPARKLINE).map(bar).collect();
    newest.into_iter().rev().collect()
}

fn key(program: &Value, session: &Value, path: &Value) -> String {
    format!("{} {} {} {}", program["pid"], session["session"], path["path"], path["radio"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn program(rate: f64, state: &str) -> Value {
        json!({ "role": "connect", "pid": 7, "uptime_s": 3.0, "listening": ["127.0.0.1:8080"], "sessions": [{
            "session": "18b405f4", "connections": 2, "paths": [
                { "path": 0, "radio": "wlan0=h:1", "state": state, "cause": if state == "up" { Value::Null } else { json!("no answer") },
                  "since_s": 4.0, "send_mbps": rate, "receive_mbps": 0.0, "rtt_ms": 12.34 }] }] })
    }

    fn screen(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(110, 9)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn paths_are_shown_with_rates_state_and_cause() {
        let mut view = View::default();
        for rate in [0.0, 4.0, 8.0] {
            view.take(vec![program(rate, "up")]);
        }
        let shown = screen(&view);
        for part in [
            "connect (pid 7) on 127.0.0.1:8080, up 3 s",
            "session 18b405f4, 2 connections",
            "wlan0=h:1",
            "▁▅█     8.00",
            "12.3",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        view.take(vec![program(0.0, "silent")]);
        let shown = screen(&view);
        assert!(
            shown.contains("silent") && shown.contains("for 4 s: no answer") && shown.contains("▁▅█▁"),
            "{shown}"
        );
        // A path that is gone leaves nothing behind.
        view.take(Vec::new());
        assert!(view.rates.is_empty() && screen(&view).contains("no long-running"));
    }

    #[test]
    fn the_rates_of_a_path_are_bounded() {
        let mut view = View::default();
        (0..1000).for_each(|rate| view.take(vec![program(f64::from(rate), "up")]));
        assert_eq!(view.rates.values().map(VecDeque::len).collect::<Vec<_>>(), [KEPT]);
        assert_eq!(sparkline([0.0, 0.0].into_iter()), "▁▁");
        assert_eq!(sparkline((0..100).map(f64::from)).chars().count(), SPARKLINE);
    }

    #[test]
    fn keys_scroll_within_what_there_is_and_end() {
        let mut view = View::default();
        view.take(vec![program(1.0, "up")]);
        for _ in 0..100 {
            assert!(view.press(KeyCode::PageDown.into()));
        }
        assert_eq!(usize::from(view.top), view.lines().len() - 1);
        view.press(KeyCode::Home.into());
        assert_eq!(view.top, 0);
        assert!(!view.press(KeyCode::Char('q').into()));
        assert!(!view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
