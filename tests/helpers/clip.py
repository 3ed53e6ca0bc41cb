"""A CLIP with random weights in the layout of the released ones, a few thousand parameters
large."""

import json

import torch

from recap.features.backbones import ensure_torchvision

CHARACTERS = "abcdefghijklmnopqrstuvwxyz"
ENDS = ["<|startoftext|>", "<|endoftext|>"]
TOWER = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def save_clip(folder):
    """Write config.json, model.safetensors, the tokenizer and preprocessor_config.json."""
    ensure_torchvision()
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPTokenizer

    words = [*CHARACTERS, *(f"{each}</w>" for each in CHARACTERS), *ENDS]
    folder.mkdir(parents=True)
    (folder / "vocab.json").write_text(
        json.dumps({word: number for number, word in enumerate(words)})
    )
    (folder / "merges.txt").write_text("#version: 0.2\n")
    CLIPTokenizer.from_pretrained(folder).save_pretrained(folder)
    CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(folder)
    start, end = len(words) - 2, len(words) - 1
    text = {
        **TOWER,
        "vocab_size": len(words),
        "bos_token_id": start,
        "eos_token_id": end,
        "pad_token_id": end,
    }
    torch.manual_seed(4)
    config = CLIPConfig(
        text_config={**text, "max_position_embeddings": 77},
        vision_config={**TOWER, "image_size": 32, "patch_size": 16},
        projection_dim=8,
    )
    model = CLIPModel(config)
    for parameter in model.parameters():  # large, so that cosines differ much
        torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    return folder
