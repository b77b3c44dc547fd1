"""A headless Chromium, driven through its debugging pipe (no library needed): opens pages, evaluates, takes pictures."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


def found():
    """The browser of this machine, or nothing."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Chromium:
    """One browser with one page."""

    def __init__(self, width=1280, height=900, dark=False):
        self.home = tempfile.mkdtemp(prefix="ffwd-chromium-")
        read_theirs, self.write_fd = os.pipe()
        self.read_fd, write_theirs = os.pipe()
        command = [found(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={self.home}", "--disable-background-networking", "about:blank"]

        def give():  # The browser reads commands from 3 and answers on 4.
            reading, writing = os.dup(read_theirs), os.dup(write_theirs)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(command, preexec_fn=give, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_theirs)
        os.close(write_theirs)
        self.left, self.number, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Runtime.enable")
        self.call("Log.enable")

    def call(self, method, **params):
        """What the browser answers."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def read(self):
        while b"\0" not in self.left:
            got = os.read(self.read_fd, 1 << 20)
            if not got:
                raise RuntimeError("the browser ended")
            self.left += got
        one, self.left = self.left.split(b"\0", 1)
        return json.loads(one)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def eval(self, script):
        """The value of a script."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"])[:400])
        return result["result"].get("value")

    def wait(self, script, seconds=20):
        """Whether a script becomes true."""
        end = time.time() + seconds
        while time.time() < end:
            try:
                if self.eval(script):
                    return True
            except RuntimeError:
                pass  # The page is being loaded.
            time.sleep(0.1)
        return False

    def picture(self, path, whole=True):
        """A picture of the page, from top to bottom."""
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            data = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        else:
            data = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as out:
            out.write(base64.b64decode(data["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)
        shutil.rmtree(self.home, ignore_errors=True)
