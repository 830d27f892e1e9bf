//! The modules inside each crate: none imports from a higher layer, and no more than two files
//! import each other in a circle.
//!
//! Imports are read from the text: `use` trees, and paths that begin with `crate` or `super`. A
//! re-export counts as an import of the file that has the item. Test modules are ignored.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{assert_none, product};

type Module = Vec<String>;

/// Opens the list of a crate's layers in the head of its root file.
const LAYERS: &str = "//! Layers, lowest first.";

/// The source files of one crate by module path, without comments and inline test modules.
struct Crate {
    texts: BTreeMap<Module, String>,
    /// The items that a module re-exports, with their original paths.
    exported: BTreeMap<(Module, String), String>,
}

fn is_test(module: &[String]) -> bool {
    let names = [
        "testing",
        "test_replica",
        "simulated_cluster",
        "simulation",
        "fuzz",
        "example",
        "seeds",
    ];
    (module.iter()).any(|part| part.ends_with("tests") || names.contains(&part.as_str()))
}

/// The text up to an inline test module, without comments.
fn code(text: &str) -> String {
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let lines: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    let begins = |at: usize| {
        let after = lines[at + 1..].iter().find(|line| !line.starts_with("#["));
        let is_inline = |line: &&str| line.contains("mod ") && line.ends_with('{');
        ["#[cfg(test)]", "#[cfg(all(test"]
            .iter()
            .any(|head| lines[at].starts_with(head))
            && after.is_some_and(is_inline)
    };
    let end = (0..lines.len())
        .find(|at| begins(*at))
        .unwrap_or(lines.len());
    lines[..end].join("\n")
}

/// Collects the paths of a `use` tree.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        if !path.is_empty() {
            paths.push(format!("{prefix}{path}"));
        }
        return;
    };
    let body = rest.rsplit_once('}').map_or(rest, |(body, _)| body);
    let prefix = format!("{prefix}{}", head.trim());
    let (mut depth, mut begin) = (0, 0);
    for (at, found) in body.char_indices() {
        match found {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &body[begin..at], paths);
                begin = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &body[begin..], paths);
}

/// The paths of all `use` declarations, each with whether it is public.
fn uses(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut statement: Option<(bool, String)> = None;
    for line in text.lines().map(str::trim) {
        let (head, tree) = line.split_once("use ").unwrap_or(("-", line));
        let opens = head.is_empty() || (head.starts_with("pub") && !head.contains([';', '{']));
        match &mut statement {
            Some((_, whole)) => whole.push_str(line),
            None if opens => statement = Some((!head.is_empty(), tree.to_owned())),
            None => continue,
        }
        if let Some((is_public, whole)) = statement.take_if(|(_, whole)| whole.ends_with(';')) {
            let mut paths = Vec::new();
            expand("", whole.trim_end_matches(';'), &mut paths);
            found.extend(paths.into_iter().map(|path| (is_public, path)));
        }
    }
    found
}

/// The paths that begin with `crate::` or `super::`, anywhere in the text.
fn inline(text: &str) -> Vec<String> {
    let is_path = |found: char| found.is_alphanumeric() || found == '_' || found == ':';
    let words = text.split(|found| !is_path(found));
    let heads = ["crate::", "super::"];
    let paths = words.filter(|word| heads.iter().any(|head| word.starts_with(head)));
    paths
        .map(|path| path.trim_end_matches(':').to_owned())
        .collect()
}

impl Crate {
    fn of(name: &str) -> Self {
        let root = format!("crates/{name}/src/");
        let mut texts = BTreeMap::new();
        for source in product() {
            let Some(path) = source.path.strip_prefix(&root) else {
                continue;
            };
            let mut module: Module = path
                .trim_end_matches(".rs")
                .split('/')
                .map(str::to_owned)
                .collect();
            if matches!(
                module.last().map(String::as_str),
                Some("mod" | "lib" | "main")
            ) {
                module.pop();
            }
            texts.insert(module, code(&source.text));
        }
        let mut exported = BTreeMap::new();
        for (module, text) in &texts {
            for (_, path) in uses(text).into_iter().filter(|(is_public, _)| *is_public) {
                let item = path.rsplit("::").next().unwrap_or_default().to_owned();
                exported.insert((module.clone(), item), path);
            }
        }
        Self { texts, exported }
    }

    /// The module that has the item of a path in `module`. `None` for a path to another crate.
    fn target(&self, path: &str, module: &Module, depth: usize) -> Option<Module> {
        let mut parts = path.split("::").peekable();
        let mut at = match parts.next()? {
            "crate" => Module::new(),
            "self" => module.clone(),
            "super" => module.split_last()?.1.to_vec(),
            _ => return None,
        };
        while parts.next_if_eq(&"super").is_some() {
            at.pop();
        }
        while let Some(part) = parts.peek() {
            let below = [&at[..], &[(*part).to_owned()]].concat();
            if !self.texts.contains_key(&below) {
                break;
            }
            at = below;
            parts.next();
        }
        let item = parts.next().unwrap_or_default().to_owned();
        let from = self.exported.get(&(at.clone(), item)).filter(|_| depth < 6);
        let from = from.and_then(|path| {
            let is_rooted = ["crate::", "self::", "super::"]
                .iter()
                .any(|head| path.starts_with(head));
            let path = if is_rooted {
                path.clone()
            } else {
                format!("self::{path}")
            };
            self.target(&path, &at, depth + 1)
        });
        Some(from.unwrap_or(at))
    }

    fn imports(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let product = self.texts.iter().filter(|(module, _)| !is_test(module));
        let imports = product.map(|(module, text)| {
            let private = uses(text).into_iter().filter(|(is_public, _)| !is_public);
            let public: BTreeSet<String> = uses(text)
                .into_iter()
                .filter(|(is_public, _)| *is_public)
                .map(|(_, path)| path)
                .collect();
            let inline = inline(text)
                .into_iter()
                .filter(|path| !public.iter().any(|one| one.starts_with(path.as_str())));
            let paths = private.map(|(_, path)| path).chain(inline);
            let targets = paths.filter_map(|path| self.target(&path, module, 0));
            let others = targets.filter(|target| target != module && !is_test(target));
            (module.clone(), others.collect())
        });
        imports.collect()
    }
}

/// All modules that can be reached from a module by imports.
fn reached(imports: &BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    found
}

/// The cycles of more than two files, largest first.
fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<_, _> = imports
        .keys()
        .map(|from| (from, reached(imports, from)))
        .collect();
    let mut circles = BTreeSet::new();
    for (module, others) in &reached {
        let circle: BTreeSet<Module> = (others.iter())
            .filter(|other| {
                reached
                    .get(other)
                    .is_some_and(|back| back.contains(*module))
            })
            .cloned()
            .collect();
        if circle.len() > 2 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn crates() -> BTreeSet<String> {
    let sources = product();
    let names = sources.iter().map(|source| source.path.split('/').nth(1));
    names.flatten().map(str::to_owned).collect()
}

/// The layer of each top-level module, as the root file of the crate lists them: one bullet a
/// layer, with the names of its modules as code. `None` without a list.
fn layers(root: &str) -> Option<BTreeMap<String, usize>> {
    let mut lines = root.lines().skip_while(|line| !line.starts_with(LAYERS));
    lines.next()?;
    let mut layers = BTreeMap::new();
    let mut bullets = 0;
    let mut is_names = false;
    for line in lines.map_while(|line| line.strip_prefix("//!")) {
        if line.starts_with(" - ") {
            bullets += 1;
            is_names = true;
        }
        let end = line.find(": ").or(line.strip_suffix(':').map(str::len));
        let names = line[..end.unwrap_or(line.len())]
            .split('`')
            .skip(1)
            .step_by(2);
        for name in names.filter(|_| is_names) {
            layers.insert(name.to_owned(), bullets);
        }
        is_names &= end.is_none();
    }
    Some(layers)
}

/// The imports of top-level modules that go to a higher layer, and modules without a layer.
fn upward(of: &Crate, layers: &BTreeMap<String, usize>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (module, targets) in of.imports() {
        let Some(top) = module.first() else {
            continue;
        };
        let Some(layer) = layers.get(top) else {
            found.insert(format!("{top} is in no layer"));
            continue;
        };
        for target in targets.iter().filter_map(|target| target.first()) {
            if layers
                .get(target)
                .is_some_and(|of_target| of_target > layer)
            {
                found.insert(format!(
                    "{} imports {target} of a higher layer",
                    module.join("/")
                ));
            }
        }
    }
    found
}

#[test]
fn no_module_imports_from_a_layer_above_its_own() {
    let mut complaints = Vec::new();
    for name in crates() {
        let of = Crate::of(&name);
        let tops: BTreeSet<&String> = of
            .texts
            .keys()
            .filter_map(|module| module.first())
            .collect();
        if tops.len() < 2 {
            continue;
        }
        let root = ["lib", "main"].map(|root| format!("crates/{name}/src/{root}.rs"));
        let root = (product().into_iter()).find(|source| root.contains(&source.path));
        let Some(layers) = root.and_then(|root| layers(&root.text)) else {
            complaints.push(format!("{name}: its root file states no layers"));
            continue;
        };
        let gone = layers.keys().filter(|module| !tops.contains(module));
        complaints.extend(gone.map(|module| format!("{name}: there is no module {module}")));
        let upward = upward(&of, &layers);
        complaints.extend(upward.iter().map(|what| format!("{name}: {what}")));
    }
    assert_none(&complaints);
}

#[test]
fn no_more_than_two_files_of_a_crate_import_each_other_in_a_circle() {
    let mut complaints = Vec::new();
    for name in crates() {
        for circle in circles(&Crate::of(&name).imports()) {
            let files: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            complaints.push(format!("{name}: {} import each other", files.join(" ")));
        }
    }
    assert_none(&complaints);
}

#[test]
fn imports_are_read_from_use_trees_and_paths() {
    let text = "use crate::{a::B, c::{D, e::F as G}};\npub use self::h::I;\nlet x = super::j::K;\n";
    let paths: Vec<_> = uses(text).into_iter().map(|(_, path)| path).collect();
    assert_eq!(
        paths,
        ["crate::a::B", "crate::c::D", "crate::c::e::F", "self::h::I"]
    );
    assert!(inline(text).contains(&"super::j::K".to_owned()));
}

#[test]
fn layers_are_read_from_the_head_of_a_root_file() {
    let head = "//! A crate.\n//! Layers, lowest first. More:\n//!\n//! - [`a`], `b`,\n//!   \
                [`c`](mod@c): see `x`\n//! - `d`: words\n\n- `e`\n";
    let found = layers(head).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(name, layer)| (name.as_str(), *layer))
        .collect();
    assert_eq!(found, [("a", 1), ("b", 1), ("c", 1), ("d", 2)]);
    assert_eq!(layers("//! A crate without layers.\n"), None);
}
