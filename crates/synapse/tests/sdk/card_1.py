"""The official SDK of A2A 1.x reads our card, checks its signatures, and asks for the extended one.

usage: card_1.py BASE TOKEN; prints one JSON object.
"""

import asyncio
import json
import sys

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import GetExtendedAgentCardRequest
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from jwt.api_jwk import PyJWK


class Token(CredentialService):
    """The secret, for the scheme that the card names."""

    def __init__(self, secret):
        self.secret = secret

    async def get_credentials(self, name, context):
        return self.secret if name == "bearer" else None


async def main(base: str, token: str) -> dict:
    seen = []
    async with httpx.AsyncClient() as open_client:
        jwks = (await open_client.get(f"{base}/.well-known/jwks.json")).json()
        keys = {key["kid"]: key for key in jwks["keys"]}

        def provide(kid, jku):
            seen.append([kid, jku])
            return PyJWK(keys[kid])

        verify = create_signature_verifier(provide, ["ES256"])
        resolver = A2ACardResolver(open_client, base)
        card = await resolver.get_agent_card(signature_verifier=verify)
        old = await resolver.get_agent_card("/.well-known/agent.json", signature_verifier=verify)

        broken = 0
        for change in ("name", "description", "version"):
            other = type(card)()
            other.CopyFrom(card)
            setattr(other, change, "changed")
            try:
                verify(other)
            except InvalidSignaturesError:
                broken += 1

    extended = {}
    async with httpx.AsyncClient() as client:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            config = ClientConfig(
                httpx_client=client,
                grpc_channel_factory=grpc.aio.insecure_channel,
                supported_protocol_bindings=[binding],
            )
            made = ClientFactory(config).create(card, [AuthInterceptor(Token(token))])
            more = await made.get_extended_agent_card(GetExtendedAgentCardRequest(), signature_verifier=verify)
            extended[binding] = [skill.id for skill in more.skills]
    return {
        "name": card.name,
        "interfaces": [[i.protocol_binding, i.protocol_version, i.url] for i in card.supported_interfaces],
        "schemes": sorted(card.security_schemes),
        "required": [sorted(one.schemes) for one in card.security_requirements],
        "old": old.name,
        "broken": broken,
        "seen": seen,
        "extended": extended,
    }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
