//! A source file as the rules see it: tokens, comments, which lines are code, which are tests, and its functions.

use super::lexer::{Comment, Token, Tokens, lex};

/// One Rust source text.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) tokens: Tokens,
    pub(crate) comments: Vec<Comment>,
    pub(crate) functions: Vec<Function>,
    /// For each line, from 0: whether it holds code.
    code: Vec<bool>,
    /// For each line, from 0: whether it belongs to an item that only tests have.
    test: Vec<bool>,
}

/// A function with a body.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of `fn`, from 1.
    pub(crate) line: usize,
    /// The line of the closing brace.
    pub(crate) line_last: usize,
}

/// An out-of-line module: `mod name;`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModuleFile {
    /// The names of the inline modules around it, outermost first, then its own.
    pub(crate) path: Vec<String>,
    /// What `#[path = ".."]` says.
    pub(crate) file: Option<String>,
    pub(crate) line: usize,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Source {
        let (tokens, comments) = lex(text);
        let lines = text.lines().count();
        let mut code = vec![false; lines];
        for token in tokens.as_slice() {
            mark(&mut code, token.line, token.line_last);
        }
        let mut test = vec![false; lines];
        for (line, line_last) in test_items(tokens.as_slice()) {
            mark(&mut test, line, line_last);
        }
        let functions = functions(tokens.as_slice());
        Source { tokens, comments, functions, code, test }
    }

    /// Lines of code from `line` to `line_last`, both included and counted from 1. Blank lines, comments and test items
    /// do not count.
    pub(crate) fn code_lines_in(&self, line: usize, line_last: usize) -> usize {
        let range = line - 1..line_last.min(self.code.len());
        range.filter(|&index| self.code[index] && !self.test[index]).count()
    }

    /// Lines of code of the file.
    pub(crate) fn code_lines(&self) -> usize {
        self.code_lines_in(1, self.code.len())
    }

    /// Whether the line, from 1, belongs to an item under `#[cfg(test)]` or `#[test]`.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test.get(line - 1).copied().unwrap_or(false)
    }

    /// Whether the line, from 1, holds code.
    pub(crate) fn is_code_line(&self, line: usize) -> bool {
        self.code.get(line - 1).copied().unwrap_or(false)
    }

    /// The modules that have files of their own.
    pub(crate) fn module_files(&self) -> Vec<ModuleFile> {
        module_files(self.tokens.as_slice())
    }
}

/// The index of the token that closes the bracket at `open`.
pub(crate) fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" if token.is(&token.text) => depth += 1,
            ")" | "]" | "}" if token.is(&token.text) => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len() - 1
}

/// The index of the token that ends the item at `start`: its `;` or the end of its block. A field ends with its struct.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut at = start;
    while at < tokens.len() {
        if tokens[at].is(";") || tokens[at].is("}") {
            return at;
        }
        if tokens[at].is("{") {
            let end = closing(tokens, at);
            // `use a::{b};` goes on; a block is the end of everything else.
            return if tokens.get(end + 1).is_some_and(|token| token.is(";")) { end + 1 } else { end };
        }
        at = if tokens[at].is("(") || tokens[at].is("[") { closing(tokens, at) + 1 } else { at + 1 };
    }
    tokens.len() - 1
}

/// First and last line of each item that only tests have.
fn test_items(tokens: &[Token]) -> Vec<(usize, usize)> {
    let starts = (0..tokens.len()).filter(|&at| is_test_attribute(tokens, at));
    starts.map(|at| (tokens[at].line, tokens[item_end(tokens, closing(tokens, at + 1) + 1)].line_last)).collect()
}

/// Whether `#[test]`, `#[cfg(test)]` or `#[cfg(all(test, ..))]` stands at `at`.
fn is_test_attribute(tokens: &[Token], at: usize) -> bool {
    [
        ["#", "[", "test", "]"].as_slice(),
        &["#", "[", "cfg", "(", "test", ")"],
        &["#", "[", "cfg", "(", "all", "(", "test"],
    ]
    .iter()
    .any(|pattern| {
        tokens.len() > at + pattern.len() && tokens[at..].iter().zip(*pattern).all(|(token, text)| token.is(text))
    })
}

fn functions(tokens: &[Token]) -> Vec<Function> {
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(1) {
        let name = &tokens[at + 1];
        // `fn(u8)` is a type.
        if !tokens[at].is("fn") || name.is("(") {
            continue;
        }
        let end = item_end(tokens, at);
        if tokens[end].is("}") {
            found.push(Function { name: name.text.clone(), line: tokens[at].line, line_last: tokens[end].line });
        }
    }
    found
}

fn module_files(tokens: &[Token]) -> Vec<ModuleFile> {
    let mut found = Vec::new();
    // Inline modules around the current token, with the index of their closing brace.
    let mut around: Vec<(String, usize)> = Vec::new();
    for at in 0..tokens.len() {
        while around.last().is_some_and(|(_, end)| *end < at) {
            around.pop();
        }
        let [keyword, name, next, ..] = &tokens[at..] else { break };
        if !keyword.is("mod") {
            continue;
        }
        if next.is("{") {
            around.push((name.text.clone(), closing(tokens, at + 2)));
        } else if next.is(";") {
            let path = around.iter().map(|(name, _)| name.clone()).chain([name.text.clone()]).collect();
            found.push(ModuleFile { path, file: path_attribute(&tokens[..at]), line: keyword.line });
        }
    }
    found
}

/// The content of a `#[path = ".."]` among the attributes that end the tokens, before an optional visibility.
fn path_attribute(before: &[Token]) -> Option<String> {
    let is_item_end = |token: &Token| token.is(";") || token.is("}") || token.is("{");
    let start = before.iter().rposition(is_item_end).map_or(0, |at| at + 1);
    let attributes = &before[start..];
    let at = attributes.windows(4).position(|w| w[0].is("[") && w[1].is("path") && w[2].is("="))?;
    Some(attributes[at + 3].text.clone())
}

fn mark(lines: &mut [bool], line: usize, line_last: usize) {
    for index in line - 1..line_last.min(lines.len()) {
        lines[index] = true;
    }
}

#[cfg(test)]
mod tests;
