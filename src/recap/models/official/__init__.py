"""Parameter names of released models, mapped to ours; no model imports these rules, so no training depends on them."""
