//! Calls that belong to one place, or to none.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{SANS_IO_MODULES, SANS_IO_PACKAGE, SYS_CALLS};
use crate::tidy::lexer::TokenKind;

/// Clocks, threads and random hashers are in `sys` files.
pub(super) fn sys_calls(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let mut in_sys = 0;
    for file in workspace.product() {
        for (call, instead) in SYS_CALLS {
            let lines = file.tokens.find_sequence(call).map(|token| token.line);
            for line in lines.filter(|line| !file.is_test_line(*line)) {
                if file.is_sys() {
                    in_sys += 1;
                } else {
                    findings.push(Finding::new(
                        &file.path,
                        line,
                        format!("`{}` outside a `sys` file: {instead}", call.concat()),
                    ));
                }
            }
        }
    }
    Verdict { figure: format!("{in_sys} in `sys` files"), findings }
}

/// The C library is called in `sys` files; its types and constants may be named elsewhere.
pub(super) fn os_calls(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let mut in_sys = 0;
    for file in workspace.product() {
        let tokens = file.tokens.as_slice();
        for call in tokens
            .windows(4)
            .filter(|w| w[0].is("libc") && w[1].is("::") && w[2].kind == TokenKind::Word && w[3].is("("))
        {
            if file.is_sys() {
                in_sys += 1;
            } else if !file.is_test_line(call[0].line) {
                findings.push(Finding::new(
                    &file.path,
                    call[0].line,
                    format!("`libc::{}` outside a `sys` file", call[2].text),
                ));
            }
        }
    }
    Verdict { figure: format!("{in_sys} in `sys` files"), findings }
}

/// The codec knows no socket, clock or thread.
pub(super) fn sans_io(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let mut files = 0;
    for file in workspace.product().filter(|file| file.package == SANS_IO_PACKAGE) {
        files += 1;
        for module in SANS_IO_MODULES {
            for token in
                file.tokens.find_sequence(&["std", "::", module]).filter(|token| !file.is_test_line(token.line))
            {
                findings.push(Finding::new(
                    &file.path,
                    token.line,
                    format!("`std::{module}` in a crate of bytes and events"),
                ));
            }
        }
    }
    Verdict { figure: format!("{files} files of {SANS_IO_PACKAGE}"), findings }
}
