# Template: the address and the hash of the source are set by a release (docs/releasing.md).
# From a checkout: nix-build -E '(import <nixpkgs> {}).callPackage ./dist/manifests/nix/package.nix {}'
{
  lib,
  rustPlatform,
  installShellFiles,
}:

rustPlatform.buildRustPackage {
  pname = "ffwd";
  version = "0.1.0";
  src = lib.cleanSource ../../..;
  cargoLock.lockFile = ../../../Cargo.lock;

  cargoBuildFlags = [
    "-p"
    "ffwd"
    "--features"
    "audit,descriptors,export,lab,top"
  ];
  # The tests of the whole workspace take an hour.
  doCheck = false;
  nativeBuildInputs = [ installShellFiles ];

  postInstall = ''
    $out/bin/ffwd manuals manuals
    installManPage manuals/man/*.1
    installShellCompletion --bash manuals/completions/ffwd.bash
    installShellCompletion --zsh manuals/completions/_ffwd
    installShellCompletion --fish manuals/completions/ffwd.fish
    install -Dm644 dist/ffwd.service -t $out/lib/systemd/system/
  '';

  meta = {
    description = "Fast Initial Block Download for Bitcoin nodes, in Bitcoin Core's own files";
    homepage = "https://ffwd.invalid/ffwd";
    license = with lib.licenses; [
      mit
      asl20
    ];
    mainProgram = "ffwd";
    platforms = lib.platforms.linux;
  };
}
