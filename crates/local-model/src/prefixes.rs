//! Caches the state of the model after prompt prefixes.
//!
//! Reading a prompt is slow, and most of it was part of an earlier prompt: the instructions, the tools, the
//! conversation so far. The cache keeps a [`Model`] for such a prefix, and the next round continues from a fork of
//! it.

use crate::engine::Model;

/// The maximum number of cached tokens. Each takes about 50 kB with the small model.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(crate) struct Prefixes {
    /// Sorted by use: the most recently used entry is last.
    kept: Vec<(Vec<u32>, Box<dyn Model>)>,
}

impl Prefixes {
    /// Returns a fork of the cached state with the longest prefix of `prompt`. It is never the whole prompt,
    /// because reading the last token is necessary to get the next logits.
    pub(crate) fn longest(&mut self, prompt: &[u32]) -> Option<Box<dyn Model>> {
        let fits = |tokens: &[u32]| tokens.len() < prompt.len() && prompt.starts_with(tokens);
        let at = (0..self.kept.len()).filter(|&at| fits(&self.kept[at].0)).max_by_key(|&at| self.kept[at].0.len())?;
        let used = self.kept.remove(at);
        let model = used.1.fork();
        self.kept.push(used);
        Some(model)
    }

    /// Caches the state after exactly these tokens, and evicts the least recently used entries.
    pub(crate) fn keep(&mut self, tokens: Vec<u32>, model: Box<dyn Model>) {
        self.kept.retain(|(kept, _)| *kept != tokens);
        self.kept.push((tokens, model));
        while self.kept.iter().map(|(tokens, _)| tokens.len()).sum::<usize>() > REMEMBERED {
            self.kept.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scripted;

    fn keep(prefixes: &mut Prefixes, tokens: &[u32]) {
        prefixes.keep(tokens.to_vec(), Box::new(Scripted::having_read(tokens.len())));
    }

    fn longest(prefixes: &mut Prefixes, prompt: &[u32]) -> Option<usize> {
        prefixes.longest(prompt).map(|model| model.length())
    }

    #[test]
    fn the_longest_beginning_is_taken_but_never_the_whole() {
        let mut prefixes = Prefixes::default();
        for tokens in [&[1, 2][..], &[1, 2, 3], &[1, 9]] {
            keep(&mut prefixes, tokens);
        }
        assert_eq!(longest(&mut prefixes, &[1, 2, 3, 4]), Some(3));
        assert_eq!(longest(&mut prefixes, &[1, 2, 3]), Some(2));
        assert_eq!(longest(&mut prefixes, &[7]), None);
    }

    #[test]
    fn the_least_recently_used_prefix_is_evicted() {
        let mut prefixes = Prefixes::default();
        let half = |first: u32| vec![first; REMEMBERED / 2];
        keep(&mut prefixes, &half(1));
        keep(&mut prefixes, &half(2));
        assert!(longest(&mut prefixes, &[half(1), vec![0]].concat()).is_some());
        keep(&mut prefixes, &half(3));
        assert!(longest(&mut prefixes, &[half(1), vec![0]].concat()).is_some());
        assert!(longest(&mut prefixes, &[half(2), vec![0]].concat()).is_none());
    }
}
