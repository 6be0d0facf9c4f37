"""Codecs: the wire forms of messages. Each module has an Encoder and a Decoder, as Frontera's MESSAGE_BUS_CODEC has."""

from __future__ import annotations
