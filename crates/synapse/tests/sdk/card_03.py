"""The official SDK of A2A 0.3 reads the same card, and the one where clients of 0.2 look.

usage: card_03.py BASE; prints one JSON object.
"""

import asyncio
import json
import sys

import httpx
from a2a.client.card_resolver import A2ACardResolver


async def main(base: str) -> dict:
    found = {}
    async with httpx.AsyncClient() as client:
        resolver = A2ACardResolver(client, base)
        for path in ("/.well-known/agent-card.json", "/.well-known/agent.json"):
            card = await resolver.get_agent_card(path)
            found[path] = {
                "url": card.url,
                "transport": card.preferred_transport,
                "version": card.protocol_version,
                "interfaces": [[i.transport, i.url] for i in card.additional_interfaces],
                "security": card.security,
                "scheme": card.security_schemes["bearer"].root.scheme,
                "extended": card.supports_authenticated_extended_card,
                "skills": [skill.id for skill in card.skills],
            }
    return found


print(json.dumps(asyncio.run(main(sys.argv[1]))))
