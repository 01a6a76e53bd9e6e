//! Rust source to tokens and comments: as much of the language as the rules need, and no more.
//!
//! Literals keep their content, comments are kept apart, and everything knows its line. The lexer never fails: what it
//! does not understand becomes punctuation of one character.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An identifier or a keyword.
    Word,
    /// A string of any kind; its text is the content as written.
    Text,
    /// A character, a byte or a number.
    Literal,
    Lifetime,
    /// One character; `::` is the only pair.
    Punctuation,
}

/// A token and the line that it starts on, from 1.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Only strings end on a later line.
    pub(crate) line_last: usize,
}

impl Token {
    /// Whether it is this word or punctuation, not a literal that looks like it.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Punctuation) && self.text == text
    }
}

/// A comment, with its markers.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) line_last: usize,
}

impl Comment {
    /// Whether it documents the module that it stands in.
    pub(crate) fn is_module_doc(&self) -> bool {
        self.text.starts_with("//!") || self.text.starts_with("/*!")
    }
}

/// The tokens of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    pub(crate) fn as_slice(&self) -> &[Token] {
        &self.0
    }

    /// Where these words and punctuation marks follow each other.
    pub(crate) fn find_sequence(&self, sequence: &[&str]) -> impl Iterator<Item = &Token> {
        let matches = move |window: &&[Token]| window.iter().zip(sequence).all(|(token, text)| token.is(text));
        self.0.windows(sequence.len()).filter(matches).map(|window| &window[0])
    }
}

/// Splits a source text into tokens and comments.
pub(crate) fn lex(source: &str) -> (Tokens, Vec<Comment>) {
    let mut lexer = Lexer { source, at: 0, line: 1, tokens: Vec::new(), comments: Vec::new() };
    while lexer.at < source.len() {
        lexer.step();
    }
    (Tokens(lexer.tokens), lexer.comments)
}

struct Lexer<'a> {
    source: &'a str,
    /// A character boundary, at most the length.
    at: usize,
    /// The line of `at`, from 1.
    line: usize,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
}

impl Lexer<'_> {
    /// Takes one token, one comment or one run of white space.
    fn step(&mut self) {
        let rest = &self.source[self.at..];
        let Some(first) = rest.chars().next() else { return };
        if first.is_whitespace() {
            self.advance(first.len_utf8());
        } else if rest.starts_with("//") {
            self.comment(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.comment(block_comment_bytes(rest));
        } else if let Some(bytes) = raw_word_bytes(rest) {
            self.token(TokenKind::Word, 2..bytes, bytes);
        } else if let Some((content, bytes)) = string_bytes(rest) {
            self.token(TokenKind::Text, content, bytes);
        } else if let Some(bytes) = character_bytes(rest) {
            self.token(TokenKind::Literal, 0..bytes, bytes);
        } else if first == '\'' {
            let bytes = 1 + word_bytes(&rest[1..]);
            self.token(TokenKind::Lifetime, 0..bytes, bytes);
        } else if first.is_ascii_digit() {
            let bytes = word_bytes(rest);
            self.token(TokenKind::Literal, 0..bytes, bytes);
        } else if is_word(first) {
            let bytes = word_bytes(rest);
            self.token(TokenKind::Word, 0..bytes, bytes);
        } else {
            let bytes = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            self.token(TokenKind::Punctuation, 0..bytes, bytes);
        }
    }

    fn token(&mut self, kind: TokenKind, text: core::ops::Range<usize>, bytes: usize) {
        let (line, rest) = (self.line, &self.source[self.at..]);
        let text = rest[text].to_owned();
        self.advance(bytes);
        self.tokens.push(Token { kind, text, line, line_last: self.line });
    }

    fn comment(&mut self, bytes: usize) {
        let (line, text) = (self.line, self.source[self.at..self.at + bytes].to_owned());
        self.advance(bytes);
        self.comments.push(Comment { text, line, line_last: self.line });
    }

    fn advance(&mut self, bytes: usize) {
        let taken = &self.source[self.at..self.at + bytes];
        self.line += taken.matches('\n').count();
        self.at += bytes;
    }
}

/// The length of a block comment, which may contain others.
fn block_comment_bytes(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        let tail = &rest[at..];
        let Some(first) = tail.chars().next() else { return rest.len() };
        if tail.starts_with("/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if tail.starts_with("*/") {
            (at, depth) = (at + 2, depth - 1);
        } else {
            at += first.len_utf8();
        }
        if depth == 0 {
            return at;
        }
    }
}

/// The length of `r#word`.
fn raw_word_bytes(rest: &str) -> Option<usize> {
    let word = rest.strip_prefix("r#")?;
    word.starts_with(is_word).then(|| 2 + word_bytes(word))
}

/// Where the content of a string lies and how long the string is with its quotes.
fn string_bytes(rest: &str) -> Option<(core::ops::Range<usize>, usize)> {
    let prefix = rest.find(|c: char| !matches!(c, 'b' | 'c' | 'r'))?;
    let (letters, tail) = rest.split_at(prefix);
    if !matches!(letters, "" | "b" | "c" | "r" | "br" | "cr") {
        return None;
    }
    let hashes = if letters.ends_with('r') { tail.len() - tail.trim_start_matches('#').len() } else { 0 };
    let start = prefix + hashes + 1;
    if !tail[hashes..].starts_with('"') {
        return None;
    }
    if letters.ends_with('r') {
        let close = format!("\"{}", "#".repeat(hashes));
        let end = rest[start..].find(&close).map_or(rest.len(), |at| start + at);
        return Some((start..end, (end + close.len()).min(rest.len())));
    }
    let mut escaped = false;
    for (at, c) in rest[start..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((start..start + at, start + at + 1)),
            _ => {}
        }
    }
    Some((start..rest.len(), rest.len()))
}

/// The length of a character or byte literal; `None` for a lifetime.
fn character_bytes(rest: &str) -> Option<usize> {
    let start = usize::from(rest.starts_with("b'"));
    let content = rest[start..].strip_prefix('\'')?;
    let mut chars = content.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return chars.find(|(_, c)| *c == '\'').map(|(at, _)| start + 1 + at + 1);
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| start + 1 + at + 1)
}

/// The length of the word or number that the text begins with.
fn word_bytes(rest: &str) -> usize {
    rest.find(|c| !is_word(c)).unwrap_or(rest.len())
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests;
