# Template: address and checksums are set by a release (docs/releasing.md).
class Ffwd < Formula
  desc "Fast Initial Block Download for Bitcoin nodes, in Bitcoin Core's own files"
  homepage "https://ffwd.invalid/ffwd"
  version "0.1.0"
  license any_of: ["MIT", "Apache-2.0"]
  depends_on :linux

  on_intel do
    url "https://ffwd.invalid/releases/ffwd-0.1.0-x86_64-unknown-linux-musl.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  end

  on_arm do
    url "https://ffwd.invalid/releases/ffwd-0.1.0-aarch64-unknown-linux-musl.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  end

  def install
    bin.install "ffwd"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/ffwd.bash" => "ffwd"
    zsh_completion.install "completions/_ffwd"
    fish_completion.install "completions/ffwd.fish"
  end

  test do
    system bin/"ffwd", "demo", "--blocks", "1"
  end
end
