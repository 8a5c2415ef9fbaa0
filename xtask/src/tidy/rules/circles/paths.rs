//! The paths in Rust code: those of `use`, and those written out in the code. Understands words, `::` and braces, and
//! no other part of the language.

/// A path in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Its segments.
    pub path: Vec<String>,
    /// The name under which a `use` imports it.
    pub imports: Option<String>,
    /// Line of the file, from 1.
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Into,
    Open,
    Close,
    Comma,
    Other,
}

/// The paths in code with blank comments and literals, without unit tests at its end.
pub fn uses(code: &str) -> Vec<Use> {
    let tokens = tokens(before_tests(code));
    let mut reader = Reader { tokens: &tokens, at: 0, found: Vec::new() };
    while let Some(token) = reader.peek().cloned() {
        reader.at += 1;
        match token {
            Token::Word(word) if word == "use" => reader.tree(&[], true),
            Token::Word(word) if reader.peek() == Some(&Token::Into) => reader.path(word),
            _ => {}
        }
    }
    reader.found
}

fn before_tests(code: &str) -> &str {
    let begins = |(at, mark): (usize, &str)| {
        code[at + mark.len()..].trim_start().starts_with("mod tests").then_some(at)
    };
    let end = code.match_indices("#[cfg(test)]").find_map(begins);
    end.map_or(code, |end| &code[..end])
}

fn tokens(code: &str) -> Vec<(Token, usize)> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let (token, length) = match first {
                _ if length > 0 => (Token::Word(rest[..length].to_owned()), length),
                ':' if rest.starts_with("::") => (Token::Into, 2),
                '{' => (Token::Open, 1),
                '}' => (Token::Close, 1),
                ',' => (Token::Comma, 1),
                other => (Token::Other, other.len_utf8()),
            };
            tokens.push((token, number + 1));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

struct Reader<'a> {
    tokens: &'a [(Token, usize)],
    at: usize,
    found: Vec<Use>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn word(&mut self) -> Option<String> {
        match self.peek()? {
            Token::Word(word) => {
                let word = word.clone();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    /// A path in the code, after its first word.
    fn path(&mut self, first: String) {
        let line = self.tokens[self.at - 1].1;
        let mut path = vec![first];
        while self.peek() == Some(&Token::Into) {
            self.at += 1;
            let Some(word) = self.word() else { break };
            path.push(word);
        }
        self.found.push(Use { path, imports: None, line });
    }

    /// The text after `use`, or inside its braces, up to the comma or the closing brace.
    fn tree(&mut self, before: &[String], outermost: bool) {
        let mut path = before.to_vec();
        let line = self.tokens.get(self.at).map_or(1, |(_, line)| *line);
        loop {
            match self.peek() {
                Some(Token::Word(_)) => path.extend(self.word()),
                Some(Token::Into) => self.at += 1,
                Some(Token::Open) => {
                    self.at += 1;
                    self.group(&path);
                    return;
                }
                _ => break,
            }
            if outermost && self.peek() == Some(&Token::Other) {
                break;
            }
        }
        if let Some(name) = renamed(&mut path) {
            self.found.push(Use { path, imports: Some(name), line });
        }
    }

    fn group(&mut self, path: &[String]) {
        while let Some(token) = self.peek() {
            match token {
                Token::Close => {
                    self.at += 1;
                    return;
                }
                Token::Word(_) | Token::Into | Token::Open => self.tree(path, false),
                Token::Comma | Token::Other => self.at += 1,
            }
        }
    }
}

/// The name under which the path is imported. Removes `as NAME` and `self` from its end.
fn renamed(path: &mut Vec<String>) -> Option<String> {
    let name = match path.iter().position(|word| word == "as") {
        Some(at) => {
            let name = path.last().cloned();
            path.truncate(at);
            name
        }
        None => None,
    };
    if path.len() > 1 && path.last().is_some_and(|word| word == "self") {
        path.pop();
    }
    name.or_else(|| path.last().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<(String, Option<String>)> {
        uses(code).into_iter().map(|used| (used.path.join("::"), used.imports)).collect()
    }

    #[test]
    fn trees_of_use_become_paths() {
        let code =
            "pub use a::{self, b::{C, D as E}, f::*};\nuse super::super::x;\nfn g() { crate::y::z(); 1 }";
        let imported = |path: &str, name: &str| (path.to_owned(), Some(name.to_owned()));
        assert_eq!(
            found(code),
            [
                imported("a", "a"),
                imported("a::b::C", "C"),
                imported("a::b::D", "E"),
                imported("a::f", "f"),
                imported("super::super::x", "x"),
                ("crate::y::z".to_owned(), None),
            ]
        );
        assert_eq!(uses(code)[4].line, 2);
    }

    #[test]
    fn broken_code_ends() {
        for code in
            ["use", "use {", "use a::{b", "use a::{{{", "a::", "use ;", "use a as", "::", "use a::{as}"]
        {
            let _ = uses(code);
        }
    }
}
