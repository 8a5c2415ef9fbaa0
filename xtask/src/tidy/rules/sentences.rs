//! Sentences of documents are short enough to be read once.
//!
//! A sentence ends with a full stop, `!` or `?`, at the end of a paragraph, of a list's item, of a heading and of a table's cell. A code
//! span is one word, a link's address none. Not checked: code blocks, and the files of generated tables.

use super::super::finding::Finding;
use super::super::project::{Project, SourceFile};

/// A sentence has fewer words.
const LIMIT: usize = 45;

/// Reports long sentences.
pub fn check(project: &Project) -> Vec<Finding> {
    let is_page = |file: &&SourceFile| file.path.ends_with(".md") && !file.path.ends_with(".tables.md");
    project.files.iter().filter(is_page).flat_map(long).collect()
}

fn long(file: &SourceFile) -> Vec<Finding> {
    let (mut sentence, mut findings) = (Sentence::default(), Vec::new());
    let mut end = |sentence: &mut Sentence| {
        let Sentence { words, first, .. } = std::mem::take(sentence);
        if words >= LIMIT {
            let what = format!("a sentence of {words} words (fails from {LIMIT})");
            findings.push(Finding::error(&file.path, first, what, "make two of it, or a list or table"));
        }
    };
    let mut is_code = false;
    for (at, line) in file.text.lines().enumerate() {
        let line = line.trim();
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_fence || is_code || line.is_empty() || starts_block(line) {
            end(&mut sentence);
        }
        if is_fence || is_code {
            continue;
        }
        for (cell, text) in line.split(if line.starts_with('|') { '|' } else { '\n' }).enumerate() {
            if cell > 0 {
                end(&mut sentence);
            }
            for word in text.split_whitespace() {
                if sentence.take(word, at + 1) {
                    end(&mut sentence);
                }
            }
        }
        if line.starts_with(['#', '|']) {
            end(&mut sentence);
        }
    }
    end(&mut sentence);
    findings
}

/// Whether a line does not go on with the paragraph before it: a heading, a table's row, a picture, an item of a list.
fn starts_block(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_item = ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark));
    is_item
        || line.starts_with(['#', '|'])
        || line.starts_with("![")
        || (number != line && number.starts_with(". "))
}

/// The words of a sentence so far.
#[derive(Default)]
struct Sentence {
    words: usize,
    /// Line of the first word.
    first: usize,
    /// Within a code span that has more words.
    in_code: bool,
}

impl Sentence {
    /// Counts a word; whether the sentence ends with it.
    fn take(&mut self, word: &str, line: usize) -> bool {
        if self.words == 0 {
            self.first = line;
        }
        let began_in_code = self.in_code;
        self.in_code ^= word.matches('`').count() % 2 == 1;
        // Code counts once, with the word in which it begins; dashes and signs are no words.
        self.words += usize::from(!began_in_code && word.contains(char::is_alphanumeric));
        let (text, after) = word
            .split_once("](")
            .map_or((word, ""), |(text, link)| (text, link.rsplit_once(')').map_or("", |(_, after)| after)));
        let ends = |part: &str| {
            part.trim_end_matches([')', ']', '*', '_', '"', '”', '\'']).ends_with(['.', '!', '?'])
        };
        !self.in_code && (ends(text) || ends(after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &'static str, text: &str) -> Vec<usize> {
        check(&Project::of_files(&[(path, text)])).into_iter().map(|found| found.line).collect()
    }

    #[test]
    fn a_sentence_of_45_words_fails_where_it_begins() {
        let words = |count: usize| "word ".repeat(count);
        let page = |text: &str| lines("docs/page.md", text);
        assert_eq!(page(&format!("One.\nTwo. {}\nend.\n", words(44))), [2]);
        assert!(
            page(&format!("{}end. {}(end.) {}[end.](a.md)\n", words(43), words(43), words(43))).is_empty()
        );
        assert_eq!(page(&format!("| a | {} |\n", words(45))), [1]);
        let blocks = ["# {}\n{}", "- {}\n- {}", "{}\n\n{}", "{}\n1. {}", "| {} | {} |", "{}\n![{}](a.svg)"];
        for block in blocks {
            assert!(page(&block.replace("{}", &words(30))).is_empty(), "{block}");
        }
        assert_eq!(page(&format!("{}\n{}", words(30), words(30))), [1], "one paragraph");
    }

    #[test]
    fn code_is_one_word_and_generated_tables_may_say_what_they_like() {
        let long = "word ".repeat(60);
        assert!(lines("docs/page.md", &format!("Run `{long}`.\n```\n{long}\n```\n")).is_empty());
        assert!(lines("docs/page.tables.md", &long).is_empty() && lines("a.rs", &long).is_empty());
        assert_eq!(lines("CHANGELOG.md", &long), [1]);
    }
}
