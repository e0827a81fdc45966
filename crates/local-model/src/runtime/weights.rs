//! Loads the weights of a model in a format that CPUs process quickly.

use std::io::{Cursor, Read, Seek};
use std::sync::Arc;

use candle_core::quantized::gguf_file::{self, Content};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::engine::Model;

/// Formats for which candle has no SIMD code. Converted to `Q8_0` they are several times faster.
const SLOW: [GgmlDType; 3] = [GgmlDType::Q4_1, GgmlDType::Q5_0, GgmlDType::Q5_1];

/// The weights, with the keys and values of the tokens read so far.
#[derive(Clone)]
struct Candle {
    weights: ModelWeights,
    read: usize,
    /// A pool of one thread. Without it, each matrix operation would use as many threads as there are cores.
    thread: Arc<ThreadPool>,
}

/// Loads the weights from a file.
pub(super) fn load(content: Content, file: &mut (impl Read + Seek)) -> Result<Box<dyn Model>> {
    let thread = ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "local-model-tensors".to_owned()).build();
    let thread = Arc::new(thread.map_err(candle_core::Error::wrap)?);
    let is_slow = content.tensor_infos.values().any(|tensor| SLOW.contains(&tensor.ggml_dtype));
    let weights =
        if is_slow { repacked(&content, file)? } else { ModelWeights::from_gguf(content, file, &Device::Cpu)? };
    Ok(Box::new(Candle { weights, read: 0, thread }))
}

/// Converts the slow tensors of a file. Candle loads weights only from a file, so this writes a new file in memory
/// and reads it back.
fn repacked(content: &Content, file: &mut (impl Read + Seek)) -> Result<ModelWeights> {
    let mut tensors = Vec::with_capacity(content.tensor_infos.len());
    for name in content.tensor_infos.keys() {
        let tensor = content.tensor(file, name, &Device::Cpu)?;
        let tensor = if SLOW.contains(&tensor.dtype()) {
            QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, GgmlDType::Q8_0)?
        } else {
            tensor
        };
        tensors.push((name.as_str(), tensor));
    }
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
    // The vocabulary is large and not part of the weights.
    let metadata = content.metadata.iter().filter(|(key, _)| !key.starts_with("tokenizer."));
    let metadata: Vec<_> = metadata.map(|(key, value)| (key.as_str(), value)).collect();
    let mut written = Cursor::new(Vec::new());
    gguf_file::write(&mut written, &metadata, &tensors)?;
    drop(tensors);
    written.set_position(0);
    let content = Content::read(&mut written)?;
    ModelWeights::from_gguf(content, &mut written, &Device::Cpu)
}

impl Model for Candle {
    fn read(&mut self, tokens: &[u32]) -> std::result::Result<Vec<f32>, String> {
        let (weights, at) = (&mut self.weights, self.read);
        let logits = self.thread.install(|| {
            let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
            weights.forward(&tokens, at)?.squeeze(0)?.to_vec1()
        });
        self.read += tokens.len();
        logits.map_err(|why: candle_core::Error| format!("the local model failed: {why}"))
    }

    fn length(&self) -> usize {
        self.read
    }

    fn fork(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
