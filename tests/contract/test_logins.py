"""Logins to the registries of clouds, each step against a double that checks what it is shown."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ci_automation.net.network import Network
from ci_automation.net.services import Exchange
from ci_automation.net.waiting import Clock, Patience
from ci_automation.registry.credentials import Credential
from ci_automation.registry.logins import login, variables
from ci_automation.registry.logins.cloud import CloudLoginFailed, NoCloudIdentity, NotOfProvider
from tests.fakes.clouds import (
    ACCESS,
    ACCOUNT,
    CANARY,
    CLIENT,
    CLIENT_SECRET,
    FEDERATED,
    IMPERSONATED,
    KEYS,
    PASSWORD,
    POOL,
    REFRESH,
    ROLE,
    TENANT,
    Clouds,
    Refused,
    identity_token,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Login = Callable[..., Credential]

ECR, ACR, GAR = "111122223333.dkr.ecr.eu-central-1.amazonaws.com", "acme.azurecr.io", "europe-west3-docker.pkg.dev"
NOW = 1_795_000_000.0
BY_ROLE = {"AWS_ROLE_ARN": ROLE}
BY_KEYS = {"AWS_ACCESS_KEY_ID": KEYS[0], "AWS_SECRET_ACCESS_KEY": KEYS[1], "AWS_SESSION_TOKEN": KEYS[2]}
BY_APPLICATION = {"AZURE_CLIENT_ID": CLIENT, "AZURE_TENANT_ID": TENANT}
BY_POOL = {"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": POOL}


@pytest.fixture
def clouds() -> Iterator[Clouds]:
    with Clouds() as running:
        yield running


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def exchange(slept: list[float]) -> Exchange:
    return Exchange(Network(), Patience(attempts=3, seconds=60.0, clock=Clock(now=lambda: NOW, sleep=slept.append)))


@pytest.fixture
def masked() -> list[str]:
    return []


@pytest.fixture
def log_in(clouds: Clouds, exchange: Exchange, masked: list[str]) -> Login:
    """Return the login, of a job that may ask for identity tokens, with more variables."""

    def logged_in(provider: str, host: str, more: Mapping[str, str], *, job: bool = True) -> Credential:
        environment = {**(clouds.job if job else {}), **more}
        return login(provider, host, environment, mask=masked.append, exchange=exchange, where=clouds.where)

    return logged_in


def credentials_file(folder: Path, text: Mapping[str, object]) -> dict[str, str]:
    path = folder / "credentials.json"
    path.write_text(json.dumps(text))
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}


def external(source: Mapping[str, object], **more: object) -> dict[str, object]:
    return {
        "type": "external_account",
        "audience": f"//iam.googleapis.com/{POOL}",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": source,
    } | more


@pytest.mark.parametrize(
    ("provider", "host", "ours"),
    [
        pytest.param("aws", ECR, True, id="ECR"),
        pytest.param("aws", "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", True, id="ECR in China"),
        pytest.param("aws", "111122223333.dkr.ecr-fips.us-gov-west-1.amazonaws.com", True, id="ECR, FIPS"),
        pytest.param("aws", f"{ECR}.evil.example", False, id="ECR as the beginning of a name"),
        pytest.param("aws", f"evil.example.{ECR}", False, id="ECR as the end of a name"),
        pytest.param("aws", f"{ECR}:5000", False, id="ECR with a port"),
        pytest.param("aws", "public.ecr.aws", False, id="the public ECR, whose login is another one"),
        pytest.param("aws", "ghcr.io", False, id="ghcr.io is not of AWS"),
        pytest.param("azure", ACR, True, id="ACR"),
        pytest.param("azure", "acme.azurecr.cn", True, id="ACR in China"),
        pytest.param("azure", "acme.azurecr.us", True, id="ACR of the government"),
        pytest.param("azure", "azurecr.io", False, id="no registry's name"),
        pytest.param("azure", "acme.azurecr.io.evil.example", False, id="ACR as the beginning of a name"),
        pytest.param("azure", "evil.example/x.azurecr.io", False, id="a path"),
        pytest.param("azure", ECR, False, id="ECR is not of Azure"),
        pytest.param("gcp", GAR, True, id="Artifact Registry"),
        pytest.param("gcp", "gcr.io", True, id="gcr.io"),
        pytest.param("gcp", "eu.gcr.io", True, id="eu.gcr.io"),
        pytest.param("gcp", "evilgcr.io", False, id="a name that ends as gcr.io does"),
        pytest.param("gcp", "europe-west3-docker.pkg.dev.evil.example", False, id="Artifact Registry as the beginning"),
        pytest.param("gcp", "npm.pkg.dev", False, id="another kind of package"),
    ],
)
def test_a_login_is_for_the_registries_of_its_provider_alone(
    log_in: Login, clouds: Clouds, provider: str, host: str, *, ours: bool
) -> None:
    variables_of = {"aws": BY_ROLE, "azure": BY_APPLICATION, "gcp": BY_POOL}[provider]
    if ours:
        assert log_in(provider, host, variables_of) != Credential("")
        return
    with pytest.raises(NotOfProvider, match=f"not a registry of the provider {provider}") as raised:
        log_in(provider, host, variables_of)
    assert "registry-username" in raised.value.hint
    assert clouds.requests == []


class TestAws:
    def test_a_role_is_assumed_with_the_jobs_token(self, log_in: Login, clouds: Clouds, masked: list[str]) -> None:
        assert log_in("aws", ECR, BY_ROLE) == Credential("AWS", PASSWORD)
        assert clouds.services == ["github", "sts.eu-central-1.amazonaws.com", "api.ecr.eu-central-1.amazonaws.com"]
        assert masked == [identity_token("sts.amazonaws.com"), KEYS[1], KEYS[2], PASSWORD]
        assert clouds.requests[1].form["RoleSessionName"] == "flux-manifests"

    @pytest.mark.parametrize(
        ("host", "sts", "ecr"),
        [
            pytest.param(
                "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn",
                "sts.cn-north-1.amazonaws.com.cn",
                "api.ecr.cn-north-1.amazonaws.com.cn",
                id="China",
            ),
            pytest.param(
                "111122223333.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
                "sts.us-gov-west-1.amazonaws.com",
                "ecr-fips.us-gov-west-1.amazonaws.com",
                id="FIPS",
            ),
        ],
    )
    def test_the_services_are_those_of_the_registrys_region(
        self, log_in: Login, clouds: Clouds, host: str, sts: str, ecr: str
    ) -> None:
        log_in("aws", host, BY_ROLE)
        assert clouds.services == ["github", sts, ecr]

    def test_keys_in_the_environment_come_first(self, log_in: Login, clouds: Clouds) -> None:
        assert log_in("aws", ECR, BY_ROLE | BY_KEYS) == Credential("AWS", PASSWORD)
        assert clouds.services == ["api.ecr.eu-central-1.amazonaws.com"]

    def test_a_file_with_a_token_stands_in_for_the_jobs(self, log_in: Login, clouds: Clouds, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(identity_token("sts.amazonaws.com") + "\n")
        by_file = BY_ROLE | {"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token")}
        assert log_in("aws", ECR, by_file, job=False) == Credential("AWS", PASSWORD)
        assert clouds.services[0] == "sts.eu-central-1.amazonaws.com"

    def test_a_container_of_aws_has_its_own(self, log_in: Login, clouds: Clouds) -> None:
        environment = {
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/1",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": f"{CANARY}-container",
        }
        assert log_in("aws", ECR, environment, job=False) == Credential("AWS", PASSWORD)
        assert clouds.services[0] == "169.254.170.2"

    def test_a_containers_credentials_are_asked_for_over_tls(self, log_in: Login, clouds: Clouds) -> None:
        environment = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://evil.example/credentials"}
        with pytest.raises(NoCloudIdentity, match=r"evil\.example has an address without TLS"):
            log_in("aws", ECR, environment)
        assert clouds.requests == []

    def test_a_role_that_does_not_trust_this_job_is_named(self, log_in: Login) -> None:
        with pytest.raises(CloudLoginFailed, match=r"AWS STS at .*403 AccessDenied: Not authorized") as raised:
            log_in("aws", ECR, {"AWS_ROLE_ARN": f"{ROLE}-of-others"})
        assert "AWS_ROLE_ARN" in raised.value.hint
        assert raised.value.exit_code == 20

    def test_wrong_keys_are_refused(self, log_in: Login) -> None:
        with pytest.raises(CloudLoginFailed, match=r"ECR at .*The signature does not match"):
            log_in("aws", ECR, BY_KEYS | {"AWS_SECRET_ACCESS_KEY": f"{CANARY}-wrong"})


class TestAzure:
    @pytest.mark.parametrize(
        ("host", "authority"),
        [
            pytest.param(ACR, "login.microsoftonline.com", id="public"),
            pytest.param("acme.azurecr.cn", "login.chinacloudapi.cn", id="China"),
            pytest.param("acme.azurecr.us", "login.microsoftonline.us", id="government"),
        ],
    )
    def test_an_application_shows_the_jobs_token(
        self, log_in: Login, clouds: Clouds, masked: list[str], host: str, authority: str
    ) -> None:
        assert log_in("azure", host, BY_APPLICATION) == Credential("", "", REFRESH)
        assert clouds.services == ["github", authority, host]
        assert masked[1:] == [ACCESS, REFRESH]

    def test_a_secret_comes_first(self, log_in: Login, clouds: Clouds) -> None:
        credential = log_in("azure", ACR, BY_APPLICATION | {"AZURE_CLIENT_SECRET": CLIENT_SECRET})
        assert credential == Credential("", "", REFRESH)
        assert "github" not in clouds.services

    def test_a_file_with_a_token_stands_in_for_the_jobs(self, log_in: Login, clouds: Clouds, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(identity_token("api://AzureADTokenExchange"))
        by_file = BY_APPLICATION | {"AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "token")}
        assert log_in("azure", ACR, by_file, job=False) == Credential("", "", REFRESH)
        assert "github" not in clouds.services

    def test_a_refusal_is_shown_without_the_token_that_it_quotes(self, log_in: Login) -> None:
        with pytest.raises(CloudLoginFailed, match=r"Entra ID at .*no matching federated identity record for \*\*\*"):
            log_in("azure", ACR, BY_APPLICATION | {"AZURE_CLIENT_ID": f"{CLIENT[:-1]}3"})

    def test_an_authority_without_tls_is_shown_nothing(self, log_in: Login, clouds: Clouds) -> None:
        with pytest.raises(NoCloudIdentity, match=r"evil\.example has an address without TLS"):
            log_in("azure", ACR, BY_APPLICATION | {"AZURE_AUTHORITY_HOST": "http://evil.example"})
        assert clouds.services == ["github"]


class TestGoogle:
    def test_the_jobs_token_is_exchanged_and_becomes_a_service_account(
        self, log_in: Login, clouds: Clouds, masked: list[str]
    ) -> None:
        credential = log_in("gcp", GAR, BY_POOL | {"GOOGLE_SERVICE_ACCOUNT": ACCOUNT})
        assert credential == Credential("oauth2accesstoken", IMPERSONATED)
        assert clouds.services == ["github", "sts.googleapis.com", "iamcredentials.googleapis.com"]
        assert masked[1:] == [FEDERATED, IMPERSONATED]

    def test_without_a_service_account_it_acts_as_itself(self, log_in: Login) -> None:
        assert log_in("gcp", GAR, BY_POOL) == Credential("oauth2accesstoken", FEDERATED)

    def test_a_service_accounts_key_signs_for_a_token_and_goes_nowhere(
        self, log_in: Login, clouds: Clouds, tmp_path: Path
    ) -> None:
        pem = clouds.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        named = credentials_file(tmp_path, {"type": "service_account", "client_email": ACCOUNT, "private_key": pem})
        assert log_in("gcp", GAR, BY_POOL | named) == Credential("oauth2accesstoken", ACCESS)
        assert clouds.services == ["oauth2.googleapis.com"]
        assert b"PRIVATE" not in clouds.requests[0].body

    @pytest.mark.parametrize("as_json", [pytest.param(True, id="in JSON"), pytest.param(False, id="as text")])
    def test_a_file_may_say_where_the_token_is(self, log_in: Login, tmp_path: Path, *, as_json: bool) -> None:
        token = identity_token(f"https://iam.googleapis.com/{POOL}")
        (tmp_path / "token").write_text(json.dumps({"id": token}) if as_json else token)
        source: dict[str, object] = {"file": str(tmp_path / "token")}
        if as_json:
            source["format"] = {"type": "json", "subject_token_field_name": "id"}
        named = credentials_file(tmp_path, external(source))
        assert log_in("gcp", GAR, named, job=False) == Credential("oauth2accesstoken", FEDERATED)

    def test_a_file_may_say_whom_to_ask_for_the_token(self, log_in: Login, clouds: Clouds, tmp_path: Path) -> None:
        source = {
            "url": f"{clouds.where('github')}/token?audience=https://iam.googleapis.com/{POOL}",
            "headers": {"Authorization": f"bearer {CANARY}-request"},
            "format": {"type": "json", "subject_token_field_name": "value"},
        }
        account = f"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken"
        named = credentials_file(tmp_path, external(source, service_account_impersonation_url=account))
        assert log_in("gcp", GAR, named) == Credential("oauth2accesstoken", IMPERSONATED)

    def test_a_machine_of_google_has_its_own(self, log_in: Login) -> None:
        assert log_in("gcp", GAR, {}, job=False) == Credential("oauth2accesstoken", ACCESS)

    def test_elsewhere_it_is_said_what_to_set(self, log_in: Login, clouds: Clouds, slept: list[float]) -> None:
        clouds.faults.append(Refused(503, {}))
        with pytest.raises(NoCloudIdentity, match="neither GOOGLE_WORKLOAD_IDENTITY_PROVIDER nor") as raised:
            log_in("gcp", GAR, {})
        assert "id-token: write" in raised.value.hint
        assert slept == []

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            pytest.param({"type": "authorized_user"}, "neither of type", id="another type"),
            pytest.param(
                external({}, token_url="https://evil.example/v1/token"),
                "another service",
                id=("STS of others"),
            ),
            pytest.param(
                external({}, service_account_impersonation_url="https://evil.example/:generateAccessToken"),
                "another impersonation service than Google's",
                id="IAM of others",
            ),
            pytest.param(external({"environment_id": "aws1"}), "an unknown source", id="a source of AWS"),
            pytest.param(external({"file": "/nonexistent"}), "cannot be read", id="no such file"),
            pytest.param(external({"url": "http://evil.example/"}), "without TLS", id="asks without TLS"),
            pytest.param(external({"url": "https://x.example", "headers": {"a": 1}}), "headers", id="no headers"),
            pytest.param(
                {"type": "service_account", "client_email": ACCOUNT, "private_key": "none"},
                "no private key",
                id="no key",
            ),
        ],
    )
    def test_a_file_that_leads_elsewhere_is_refused(
        self, log_in: Login, clouds: Clouds, tmp_path: Path, text: dict[str, object], why: str
    ) -> None:
        with pytest.raises(NoCloudIdentity, match=why):
            log_in("gcp", GAR, credentials_file(tmp_path, text))
        assert clouds.requests == []

    def test_a_key_of_another_kind_is_refused(self, log_in: Login, tmp_path: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        named = credentials_file(tmp_path, {"type": "service_account", "client_email": ACCOUNT, "private_key": pem})
        with pytest.raises(NoCloudIdentity, match="another kind of key than Google's"):
            log_in("gcp", GAR, named)

    def test_a_missing_right_is_named(self, log_in: Login) -> None:
        with pytest.raises(CloudLoginFailed, match=r"Google's IAM at .*403 PERMISSION_DENIED: no such right"):
            log_in("gcp", GAR, BY_POOL | {"GOOGLE_SERVICE_ACCOUNT": "other@acme.iam.gserviceaccount.com"})


@pytest.mark.parametrize(
    ("provider", "host", "environment", "reason"),
    [
        pytest.param("aws", ECR, {}, "neither AWS_ROLE_ARN nor AWS_ACCESS_KEY_ID", id="AWS, nothing"),
        pytest.param("aws", ECR, {"AWS_ACCESS_KEY_ID": "A"}, "AWS_SECRET_ACCESS_KEY is not", id="AWS, half a key"),
        pytest.param("aws", ECR, BY_ROLE, "id-token: write", id="AWS, no permission"),
        pytest.param(
            "aws", ECR, BY_ROLE | {"AWS_WEB_IDENTITY_TOKEN_FILE": "/none"}, "/none, by AWS_WEB", id="AWS, no such file"
        ),
        pytest.param("azure", ACR, {}, "AZURE_CLIENT_ID is not set", id="Azure, nothing"),
        pytest.param("azure", ACR, {"AZURE_CLIENT_ID": CLIENT}, "AZURE_TENANT_ID is not set", id="Azure, no tenant"),
        pytest.param(
            "azure",
            ACR,
            {"AZURE_CLIENT_ID": CLIENT, "AZURE_TENANT_ID": "a/b"},
            "TENANT_ID is not an id",
            id="Azure, a path",
        ),
        pytest.param("azure", ACR, BY_APPLICATION, "id-token: write", id="Azure, no permission"),
        pytest.param(
            "gcp", GAR, {"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": "fleet"}, "full name", id="Google, a short name"
        ),
        pytest.param(
            "gcp", GAR, BY_POOL | {"GOOGLE_SERVICE_ACCOUNT": "x/../y"}, "service account", id="Google, no account"
        ),
        pytest.param("gcp", GAR, BY_POOL, "id-token: write", id="Google, no permission"),
    ],
)
def test_what_is_missing_is_named_with_what_to_set(
    log_in: Login, clouds: Clouds, provider: str, host: str, environment: dict[str, str], reason: str
) -> None:
    with pytest.raises(NoCloudIdentity, match=reason) as raised:
        log_in(provider, host, environment, job=False)
    assert raised.value.exit_code == 2
    assert "permissions: {id-token: write}" in raised.value.hint
    assert clouds.requests == []


@pytest.mark.parametrize(
    ("provider", "host", "environment", "before"),
    [
        pytest.param("aws", ECR, BY_ROLE, 0, id="GitHub, for AWS"),
        pytest.param("aws", ECR, BY_ROLE, 1, id="AWS STS"),
        pytest.param("aws", ECR, BY_ROLE, 2, id="ECR"),
        pytest.param("azure", ACR, BY_APPLICATION, 1, id="Entra ID"),
        pytest.param("azure", ACR, BY_APPLICATION, 2, id="ACR"),
        pytest.param("gcp", GAR, BY_POOL, 1, id="Google's STS"),
        pytest.param("gcp", GAR, BY_POOL | {"GOOGLE_SERVICE_ACCOUNT": ACCOUNT}, 2, id="Google's IAM"),
    ],
)
class TestEachService:
    @staticmethod
    def after(clouds: Clouds, before: int, fault: Refused) -> None:
        """Let the request after `before` others be answered with a fault."""
        serve = clouds.served

        def served(request: object) -> object:
            if len(clouds.requests) == before + 1:
                raise fault
            return serve(request)  # type: ignore[arg-type]  # it is one

        clouds.served = served  # type: ignore[method-assign]  # of this one double

    def test_is_asked_again_when_it_is_busy(
        self,
        log_in: Login,
        clouds: Clouds,
        slept: list[float],
        provider: str,
        host: str,
        environment: dict[str, str],
        before: int,
    ) -> None:
        self.after(clouds, before, Refused(503, {}))
        log_in(provider, host, environment)
        assert slept == [0.5]

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param({}, id="an empty object"),
            pytest.param(b"<html>log in</html>", id="a web page"),
            pytest.param(
                {
                    "value": "a\nb",
                    "access_token": "a\nb",
                    "accessToken": "",
                    "refresh_token": "a b",
                    "authorizationData": [{"authorizationToken": "not base64: é"}],
                },
                id="no secrets that are any",
            ),
        ],
    )
    def test_has_to_answer_what_it_is_asked_for(
        self,
        log_in: Login,
        clouds: Clouds,
        provider: str,
        host: str,
        environment: dict[str, str],
        before: int,
        body: object,
    ) -> None:
        self.after(clouds, before, Refused(200, body))
        with pytest.raises(CloudLoginFailed, match="its answer has"):
            log_in(provider, host, environment)
        assert len(clouds.requests) == before + 1


class TestTheLibraries:
    """For the clients of KMS: the same identity, in the files that they know."""

    def test_find_a_fresh_token_in_a_file_of_ours(
        self, clouds: Clouds, exchange: Exchange, masked: list[str], tmp_path: Path
    ) -> None:
        environment = clouds.job | BY_ROLE | BY_APPLICATION | BY_POOL | {"GOOGLE_SERVICE_ACCOUNT": ACCOUNT}
        found = variables(environment, tmp_path, exchange, masked.append)
        assert Path(found["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text() == identity_token("sts.amazonaws.com")
        assert Path(found["AZURE_FEDERATED_TOKEN_FILE"]).read_text() == identity_token("api://AzureADTokenExchange")
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
        assert len(masked) == 3
        assert set(found) == {
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AZURE_FEDERATED_TOKEN_FILE",
            "GOOGLE_APPLICATION_CREDENTIALS",
        }

    def test_googles_file_is_one_that_logs_in(
        self, clouds: Clouds, exchange: Exchange, log_in: Login, tmp_path: Path
    ) -> None:
        environment = clouds.job | BY_POOL | {"GOOGLE_SERVICE_ACCOUNT": ACCOUNT}
        found = variables(environment, tmp_path, exchange)
        assert log_in("gcp", GAR, found, job=False) == Credential("oauth2accesstoken", IMPERSONATED)

    def test_keep_what_is_set(self, clouds: Clouds, exchange: Exchange, tmp_path: Path) -> None:
        environment = (
            clouds.job | BY_ROLE | BY_KEYS | BY_APPLICATION | BY_POOL
            | {"AZURE_CLIENT_SECRET": CLIENT_SECRET, "GOOGLE_APPLICATION_CREDENTIALS": "/there"}
        )  # fmt: skip
        assert variables(environment, tmp_path, exchange) == {}
        assert clouds.requests == []

    def test_get_nothing_where_the_job_may_not_ask(self, clouds: Clouds, exchange: Exchange, tmp_path: Path) -> None:
        assert variables(BY_ROLE, tmp_path, exchange) == {}
        assert clouds.requests == []
