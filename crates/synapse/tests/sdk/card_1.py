"""The official SDK of A2A 1.x reads our card, checks its signatures, and asks for the extended one.

usage: card_1.py BASE TOKEN; prints one JSON object.
"""

import asyncio
import copy
import json
import sys

import grpc
import httpx
import rfc8785
from a2a.client import ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import AgentCard, GetExtendedAgentCardRequest
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from google.protobuf.json_format import MessageToDict, ParseDict
from jwcrypto import jwk, jws
from jwcrypto.common import base64url_encode
from jwt.api_jwk import PyJWK


class Token(CredentialService):
    """The secret, for the scheme that the card names."""

    def __init__(self, secret):
        self.secret = secret

    async def get_credentials(self, name, context):
        return self.secret if name == "bearer" else None


def without_empty(value):
    """What the SDK signs: nothing that is empty, from the inside out."""
    if isinstance(value, dict):
        value = {name: inside for name, one in value.items() if (inside := without_empty(one)) is not None}
    elif isinstance(value, list):
        value = [inside for one in value if (inside := without_empty(one)) is not None]
    return None if value in ('', [], {}) else value


def verified(document, keys):
    """How many signatures are right by RFC 7515 and RFC 8785, each over one of the forms that readers make of a card."""
    document = copy.deepcopy(document)
    signatures = document.pop('signatures')
    fields = MessageToDict(ParseDict(document, AgentCard(), ignore_unknown_fields=True))
    forms = [base64url_encode(rfc8785.dumps(form)) for form in (document, fields, without_empty(fields))]

    def is_right(signature, form):
        token = jws.JWS()
        token.deserialize(json.dumps({'payload': form, **signature}))
        try:
            token.verify(keys[json.loads(token.objects['protected'])['kid']])
            return True
        except jws.InvalidJWSSignature:
            return False

    return sum(any(is_right(signature, form) for form in forms) for signature in signatures)


async def main(base: str, token: str) -> dict:
    seen = []
    async with httpx.AsyncClient() as open_client:
        jwks = (await open_client.get(f"{base}/.well-known/jwks.json")).json()
        keys = {key["kid"]: key for key in jwks["keys"]}
        plain_keys = {kid: jwk.JWK(**key) for kid, key in keys.items()}
        place = f"{base}/.well-known/agent-card.json"
        documents = [
            (await open_client.get(place)).json(),
            (await open_client.get(place, params={"A2A-Version": "1.0"})).json(),
            (await open_client.get(f"{base}/.well-known/agent.json")).json(),
        ]
        # It refuses what it does not know.
        ParseDict(documents[1], AgentCard())

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
        "signatures": [len(document["signatures"]) for document in documents],
        "verified": [verified(document, plain_keys) for document in documents],
        "strict": True,
        "extended": extended,
    }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
