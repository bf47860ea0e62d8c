//! Types of C declarations: as much of the grammar as the interface uses.

/// A type, as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CType {
    /// A name, and whether it is `const`.
    Name { name: String, is_const: bool },
    /// A pointer to a type, and whether the pointer itself is `const`.
    Pointer { to: Box<CType>, is_const: bool },
    /// A pointer to a function.
    Function {
        result: Box<CType>,
        arguments: Vec<Argument>,
    },
}

/// A parameter; its name is empty where the declaration gives none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub kind: CType,
}

/// A declared function, or the type of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    pub name: String,
    pub result: CType,
    pub arguments: Vec<Argument>,
}

/// Parses `result name(arguments)`, and `result (*name)(arguments)`, which declares a callback.
pub fn parse(text: &str) -> Result<Declaration, String> {
    let mut parser = Parser {
        tokens: tokens(text),
        next: 0,
    };
    let declaration = parser.declaration();
    match declaration {
        Some(declaration) if parser.next == parser.tokens.len() => Ok(declaration),
        _ => Err(format!("cannot parse the declaration `{text}`")),
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = String::new();
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || character == '_' {
            word.push(character);
            continue;
        }
        if !word.is_empty() {
            tokens.push(std::mem::take(&mut word));
        }
        if !character.is_whitespace() {
            tokens.push(character.to_string());
        }
    }
    if !word.is_empty() {
        tokens.push(word);
    }
    tokens
}

struct Parser {
    tokens: Vec<String>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> &str {
        self.tokens.get(self.next).map_or("", String::as_str)
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.peek() == token;
        self.next += usize::from(is_there);
        is_there
    }

    fn word(&mut self) -> Option<String> {
        let word = self.peek();
        let is_word = word
            .chars()
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        if !is_word {
            return None;
        }
        let word = word.to_string();
        self.next += 1;
        Some(word)
    }

    fn declaration(&mut self) -> Option<Declaration> {
        let result = self.plain()?;
        let is_callback = self.take("(");
        if is_callback && !self.take("*") {
            return None;
        }
        let name = self.word()?;
        if is_callback && !self.take(")") {
            return None;
        }
        let arguments = self.arguments()?;
        Some(Declaration {
            name,
            result,
            arguments,
        })
    }

    /// A type without a function in it: `const char* const*`, `unsigned long long`.
    fn plain(&mut self) -> Option<CType> {
        let is_const = self.take("const");
        let mut name = self.word()?;
        if name == "unsigned" {
            while matches!(self.peek(), "char" | "int" | "long") {
                name = format!("{name} {}", self.word()?);
            }
        }
        let mut kind = CType::Name { name, is_const };
        while self.take("*") {
            kind = CType::Pointer {
                to: Box::new(kind),
                is_const: self.take("const"),
            };
        }
        Some(kind)
    }

    fn arguments(&mut self) -> Option<Vec<Argument>> {
        if !self.take("(") {
            return None;
        }
        let mut arguments = Vec::new();
        if self.take(")") {
            return Some(arguments);
        }
        loop {
            arguments.push(self.argument()?);
            if self.take(")") {
                break;
            }
            if !self.take(",") {
                return None;
            }
        }
        let void = CType::Name {
            name: "void".to_string(),
            is_const: false,
        };
        if arguments.len() == 1 && arguments[0].kind == void {
            arguments.clear();
        }
        Some(arguments)
    }

    fn argument(&mut self) -> Option<Argument> {
        let mut kind = self.plain()?;
        let name;
        if self.take("(") {
            if !self.take("*") {
                return None;
            }
            name = self.word().unwrap_or_default();
            if !self.take(")") {
                return None;
            }
            kind = CType::Function {
                result: Box::new(kind),
                arguments: self.arguments()?,
            };
        } else {
            name = self.word().unwrap_or_default();
            if self.take("[") {
                if !self.take("]") {
                    return None;
                }
                kind = CType::Pointer {
                    to: Box::new(kind),
                    is_const: false,
                };
            }
        }
        Some(Argument { name, kind })
    }
}

impl CType {
    /// The type in Rust, as `bindgen` writes it with the prefix `libc`.
    pub fn rust(&self) -> String {
        match self {
            CType::Name { name, .. } => rust_name(name).to_string(),
            CType::Pointer { to, .. } => {
                let mutability = if to.is_const() { "*const" } else { "*mut" };
                let target = match to.as_ref() {
                    CType::Name { name, .. } if name == "void" => "libc::c_void".to_string(),
                    other => other.rust(),
                };
                format!("{mutability} {target}")
            }
            CType::Function { result, arguments } => rust_function(result, arguments),
        }
    }

    /// Returns whether it is `void`.
    pub fn is_void(&self) -> bool {
        matches!(self, CType::Name { name, .. } if name == "void")
    }

    fn is_const(&self) -> bool {
        match self {
            CType::Name { is_const, .. } | CType::Pointer { is_const, .. } => *is_const,
            CType::Function { .. } => false,
        }
    }
}

/// A pointer to a function in Rust; NULL is `None`.
pub fn rust_function(result: &CType, arguments: &[Argument]) -> String {
    let arguments = rust_arguments(arguments);
    let result = rust_result(result);
    format!("::std::option::Option<unsafe extern \"C\" fn({arguments}){result}>")
}

/// ` -> T`, or nothing for `void`.
pub fn rust_result(result: &CType) -> String {
    if result.is_void() {
        String::new()
    } else {
        format!(" -> {}", result.rust())
    }
}

/// The parameters in Rust. One without a name is called by its place.
pub fn rust_arguments(arguments: &[Argument]) -> String {
    let arguments: Vec<String> = arguments
        .iter()
        .enumerate()
        .map(|(place, argument)| {
            let name = match argument.name.as_str() {
                "" => format!("arg{}", place + 1),
                "type" | "in" | "ref" | "fn" | "match" | "move" | "priv" | "use" | "mod" => {
                    format!("{}_", argument.name)
                }
                name => name.to_string(),
            };
            format!("{name}: {}", argument.kind.rust())
        })
        .collect();
    arguments.join(", ")
}

fn rust_name(name: &str) -> &str {
    match name {
        "char" => "libc::c_char",
        "unsigned char" => "libc::c_uchar",
        "int" => "libc::c_int",
        "unsigned" | "unsigned int" => "libc::c_uint",
        "long" => "libc::c_long",
        "unsigned long long" => "libc::c_ulonglong",
        "float" => "f32",
        "double" => "f64",
        "size_t" => "usize",
        "int8_t" => "i8",
        "uint8_t" => "u8",
        "int32_t" => "i32",
        "uint32_t" => "u32",
        "int64_t" => "i64",
        "uint64_t" => "u64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust_of(text: &str) -> String {
        let declaration = parse(text).expect(text);
        format!(
            "{}({}){}",
            declaration.name,
            rust_arguments(&declaration.arguments),
            rust_result(&declaration.result)
        )
    }

    #[test]
    fn declarations_of_c_in_rust() {
        for (c, rust) in [
            ("void f(void)", "f()"),
            (
                "unsigned char f(const a_t*)",
                "f(arg1: *const a_t) -> libc::c_uchar",
            ),
            (
                "char** f(const char* const* names, size_t* n)",
                "f(names: *const *const libc::c_char, n: *mut usize) -> *mut *mut libc::c_char",
            ),
            (
                "void f(const char* const keys[], unsigned long long n)",
                "f(keys: *const *const libc::c_char, n: libc::c_ulonglong)",
            ),
            (
                "a_t* f(void* state, const char* (*name)(void*))",
                "f(state: *mut libc::c_void, name: ::std::option::Option<unsafe extern \"C\" \
                 fn(arg1: *mut libc::c_void) -> *const libc::c_char>) -> *mut a_t",
            ),
            (
                "int (*g)(void* state, uint32_t type)",
                "g(state: *mut libc::c_void, type_: u32) -> libc::c_int",
            ),
        ] {
            assert_eq!(rust_of(c), rust, "{c}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "int",
            "int f",
            "int f(",
            "int f(a,)",
            "int f(int a) b",
            "int (f)(int)",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
