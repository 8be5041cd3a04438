// A real server of OpenID Connect for the tests: node oidc_server.mjs FOLDER_OF_NODE_MODULES ADDRESS_TO_COME_BACK_TO
// Whoever signs in as NAME is NAME@example.org. The groups stand in the name: "ada.census.staff" is in census and staff.
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [modules, back] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`));
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: "neartwin", client_secret: "secret of the service", redirect_uris: [back] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: ["openid", "email", "groups"],
    cookies: { keys: ["only for tests"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: `${id.split(".")[0]}@example.org`,
        email_verified: !id.endsWith(".unverified"),
        groups: id.split(".").slice(1),
      }),
    }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
