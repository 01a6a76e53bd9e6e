//! The function that takes the place of an `async fn`.
//!
//! It stays as it is, inside a synchronous one that hands it to the facade, which alone knows how a runtime is built:
//!
//! ```text
//! fn main() -> T {
//!     async fn main() -> T { body }
//!     ::plimsoll::__private::run_main(::plimsoll::__private::MainOptions { .. }, main)
//! }
//! ```
//!
//! As a function, and not as a block, its result keeps its type for `?` and for the compiler's messages; under its own
//! name, it hides no other.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, ItemFn, Result, ReturnType, Visibility};

use crate::arguments::{MainArguments, TestArguments};

/// Expands `#[plimsoll::main]`. An error takes the place of the body, so that the rest of the file is judged as if it
/// were right.
pub(crate) fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand(TokenStream::new(), item, Output::Returned, |function| {
        let MainArguments { memory, workers, driver } = MainArguments::parse(arguments)?;
        let (memory, workers, driver) = (option(memory), option(workers), option(driver));
        let name = &function.sig.ident;
        Ok(quote! {
            ::plimsoll::__private::run_main(
                ::plimsoll::__private::MainOptions { memory: #memory, workers: #workers, driver: #driver },
                #name,
            )
        })
    })
}

/// Expands `#[plimsoll::test]`.
pub(crate) fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let attribute = quote! { #[::core::prelude::v1::test] };
    expand(attribute, item, Output::Judged, |function| {
        if let Some(other) = function.attrs.iter().find(|attribute| attribute.path().is_ident("test")) {
            return Err(Error::new(other.span(), "`#[plimsoll::test]` makes it a test already"));
        }
        let TestArguments { memory, workers, drivers, seed, faults, worlds } = TestArguments::parse(arguments)?;
        let (memory, workers) = (option(memory), option(workers));
        let (drivers, seed) = (option(drivers), option(seed));
        let (faults, worlds) = (option(faults), option(worlds));
        let function = &function.sig.ident;
        let name = function.to_string();
        Ok(quote! {
            ::plimsoll::__private::run_test(
                ::plimsoll::__private::TestOptions {
                    name: #name,
                    memory: #memory,
                    workers: #workers,
                    drivers: #drivers,
                    seed: #seed,
                    faults: #faults,
                    worlds: #worlds,
                },
                #function,
            )
        })
    })
}

/// Where the value of the `async fn` goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// To whoever called the function.
    Returned,
    /// Nowhere: the facade looks at the value of each run.
    Judged,
}

/// The function inside a synchronous one, with one attribute more, that makes the call.
fn expand(
    attribute: TokenStream,
    item: TokenStream,
    output: Output,
    call: impl FnOnce(&ItemFn) -> Result<TokenStream>,
) -> TokenStream {
    let mut function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = Error::new(error.span(), "this attribute belongs on an `async fn`").into_compile_error();
            return quote! { #error #item };
        }
    };
    let body = match signature(&function).and_then(|()| call(&function)) {
        Ok(call) => {
            let inside = ItemFn { attrs: Vec::new(), vis: Visibility::Inherited, ..function.clone() };
            quote! { #inside #call }
        }
        Err(error) => {
            let error = error.into_compile_error();
            function.sig.inputs.clear();
            quote! { #error ::core::panic!() }
        }
    };
    function.sig.asyncness = None;
    if output == Output::Judged {
        function.sig.output = ReturnType::Default;
    }
    let ItemFn { attrs, vis, sig, .. } = &function;
    quote! { #attribute #(#attrs)* #vis #sig { #body } }
}

/// Refuses what cannot be called without arguments and awaited.
fn signature(function: &ItemFn) -> Result<()> {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        return Err(Error::new(signature.fn_token.span, "the function must be an `async fn`"));
    }
    if !signature.inputs.is_empty() {
        return Err(Error::new(
            signature.inputs.span(),
            "the function must have no parameters: nobody would give them",
        ));
    }
    if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
        return Err(Error::new(signature.generics.span(), "the function must not be generic"));
    }
    Ok(())
}

/// `Some(value)` or `None`, as tokens.
fn option(value: Option<impl quote::ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote! { ::core::option::Option::Some(#value) },
        None => quote! { ::core::option::Option::None },
    }
}

#[cfg(test)]
mod tests;
