//! What the attributes expand to, and which functions they refuse.

use proc_macro2::TokenStream;
use syn::{Attribute, File, Item, ItemFn, Stmt, parse_quote, parse2};

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("tokens")
}

fn main(arguments: &str, item: &str) -> TokenStream {
    super::main(tokens(arguments), tokens(item))
}

fn test(arguments: &str, item: &str) -> TokenStream {
    super::test(tokens(arguments), tokens(item))
}

/// The only function of an expansion.
fn function(expanded: TokenStream) -> ItemFn {
    let file: File = parse2(expanded).expect("an expansion is a source text");
    match file.items.as_slice() {
        [Item::Fn(function)] => function.clone(),
        items => panic!("one function is expected, not {}", items.len()),
    }
}

/// The text of the expansion, for what stands in it.
fn refused(expanded: &TokenStream, words: &str) {
    let text = expanded.to_string();
    assert!(text.contains("compile_error") && text.contains(words), "{text}");
}

#[test]
fn main_becomes_a_synchronous_function_that_calls_the_facade() {
    let expanded = main(
        "memory = \"64MiB\", workers = 2, driver = \"uring\"",
        "#[doc = \"Doc.\"]\npub async fn main() -> R { go().await?; Ok(()) }",
    );
    let expected: ItemFn = parse_quote! {
        #[doc = "Doc."]
        pub fn main() -> R {
            async fn main() -> R { go().await?; Ok(()) }
            ::plimsoll::__private::run_main(
                ::plimsoll::__private::MainOptions {
                    memory: ::core::option::Option::Some("64MiB"),
                    workers: ::core::option::Option::Some(2usize),
                    driver: ::core::option::Option::Some("uring")
                },
                main,
            )
        }
    };
    assert_eq!(text(&function(expanded)), text(&expected));
}

#[test]
fn arguments_that_are_not_given_are_none() {
    let expanded = main("", "async fn main() {}").to_string();
    assert_eq!(expanded.matches("option :: Option :: None").count(), 3, "{expanded}");
}

#[test]
fn a_test_is_a_test_and_keeps_its_attributes() {
    let function = function(test("drivers = \"mio, sim\", seed = 7", "#[should_panic]\nasync fn echo() { x().await }"));
    let attributes: Vec<String> = function.attrs.iter().map(|attribute: &Attribute| text(attribute.path())).collect();
    assert_eq!(attributes, [":: core :: prelude :: v1 :: test", "should_panic"]);
    assert!(function.sig.asyncness.is_none());
    let [Stmt::Item(Item::Fn(inside)), Stmt::Expr(call, None)] = function.block.stmts.as_slice() else {
        panic!("the test itself, then a call");
    };
    assert!(inside.sig.asyncness.is_some() && inside.attrs.is_empty());
    let expected: syn::Expr = parse_quote! {
        ::plimsoll::__private::run_test(
            ::plimsoll::__private::TestOptions {
                name: "echo",
                memory: ::core::option::Option::None,
                workers: ::core::option::Option::None,
                drivers: ::core::option::Option::Some("mio,sim"),
                seed: ::core::option::Option::Some(7u64),
                faults: ::core::option::Option::None,
                worlds: ::core::option::Option::None,
            },
            echo,
        )
    };
    assert_eq!(text(call), text(&expected));
}

#[test]
fn the_facade_judges_the_value_of_each_run_of_a_test() {
    let function = function(test("", "async fn echo() -> Result<(), E> { Ok(()) }"));
    assert!(matches!(function.sig.output, syn::ReturnType::Default));
    let Some(Stmt::Item(Item::Fn(inside))) = function.block.stmts.first() else { panic!("the test itself") };
    assert_eq!(text(&inside.sig.output), "-> Result < () , E >");
}

#[test]
fn functions_that_cannot_be_awaited_without_arguments_are_refused() {
    refused(&main("", "fn main() {}"), "must be an `async fn`");
    refused(&main("", "async fn main(args: Vec<String>) {}"), "no parameters");
    refused(&main("", "async fn main<T>() {}"), "not be generic");
    refused(&test("", "fn sum() {}"), "must be an `async fn`");
    refused(&test("", "async fn sum(a: u8) {}"), "no parameters");
    refused(&test("", "#[test]\nasync fn sum() {}"), "a test already");
}

#[test]
fn what_is_no_function_is_refused_and_kept() {
    let expanded = main("", "struct Main;");
    refused(&expanded, "belongs on an `async fn`");
    assert!(expanded.to_string().contains("struct Main"));
    let expanded = test("", "struct Test;").to_string();
    assert!(!expanded.contains("test"), "only a function is a test: {expanded}");
}

#[test]
fn wrong_arguments_leave_a_function_of_the_same_type() {
    let expanded = main("memory = \"64MB\"", "async fn main() -> R { Ok(()) }");
    refused(&expanded, "KiB, MiB or GiB");
    let function = function(expanded);
    assert!(function.sig.asyncness.is_none());
    assert_eq!(text(&function.sig.output), "-> R");
}

fn text(tokens: &impl quote::ToTokens) -> String {
    tokens.to_token_stream().to_string()
}
