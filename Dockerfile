# gpututor with the virtual GPU, and PyTorch's build for the CPU:
#   docker build -t gpututor . && docker run -it --rm -v gpututor:/home/learner gpututor
FROM python:3.13-slim

WORKDIR /opt/gpututor
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY gpututor gpututor
COPY exercises exercises
# Both indexes have torch; pip takes `2.13.0+cpu`, which is the higher of the two versions.
RUN pip install --no-cache-dir -c constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu ".[triton]" \
    && useradd --create-home learner

USER learner
WORKDIR /home/learner
ENV TERM=xterm-256color COLORTERM=truecolor
ENTRYPOINT ["gpututor"]
